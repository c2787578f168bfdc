"""safekept inside Hermes: before every tool that can change files, the helper is told.

This directory is copied into `$HERMES_HOME/plugins/safekept/` and travels with the home, so nothing of
safekept is imported here and only the standard library is used. All work is done by safekept's helper, in
another process: nothing here opens a file of the user's or a database of Hermes's. Nothing raises into
Hermes, no tool waits longer than a deadline, and what is not protected is reported.
"""

from __future__ import annotations

import contextlib
from typing import Any


def register(ctx: Any) -> None:
    """Called by Hermes when it loads the plugin; also a second time, when it looks for plugins again."""
    from .commands import Commands
    from .hooks import Hooks
    from .link import Link
    from .messages import UserMessages

    voice = UserMessages()
    link = Link(voice)
    hooks = Hooks(link, voice)
    commands = Commands(link, hooks)
    hooks.take_over()
    with contextlib.suppress(ImportError):  # left out of what Hermes's catalog names
        from .explaining import explain_rollback

        explain_rollback()
    for name, callback in (*hooks.callbacks(), ("pre_gateway_dispatch", commands.rewritten)):
        ctx.register_hook(name, callback)
    for name, handler, description, hint in commands.chat():
        ctx.register_command(name, handler, description=description, args_hint=hint)
    ctx.register_cli_command(
        "safekept",
        "Run safekept: status, rollback, snapshot, …",
        commands.prepare,
        commands.run,
        description="Everything after `safekept` goes to the program as it stands.",
    )
