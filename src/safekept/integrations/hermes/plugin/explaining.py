"""Hermes's own `/rollback` at its terminal, which plugins may not answer: what it does not know is added.

There it says that checkpoints are not enabled, and safekept has the project all the same. Its own words
stay; one line comes below them. In gateways `/rollback` is ours already.
"""

from __future__ import annotations

import functools
import logging
import sys
from typing import Any

_log = logging.getLogger(__name__)
_MODULE, _CLASS, _METHOD = "hermes_cli.cli_commands_mixin", "CLICommandsMixin", "_handle_rollback_command"
_OURS = "_safekept_explains"
TEXT = (
    "  safekept keeps this project all the same: /rewind lists what you can go back to, /rewind 1 goes back."
)


def explain_rollback() -> None:
    """Add our line, once; a Hermes that is made otherwise is left alone."""
    theirs_in = getattr(sys.modules.get(_MODULE), _CLASS, None)
    theirs = getattr(theirs_in, _METHOD, None)
    if theirs is None or getattr(theirs, _OURS, False):
        return

    @functools.wraps(theirs)
    def explained(self: Any, *words: Any, **given: Any) -> Any:
        answer = theirs(self, *words, **given)
        try:
            manager = getattr(getattr(self, "agent", None), "_checkpoint_mgr", None)
            if not getattr(manager, "enabled", False):
                sys.stdout.write(f"{TEXT}\n")  # where Hermes's own answer went
        except Exception as error:
            _log.debug("safekept: nothing was added to /rollback: %s", error)
        return answer

    setattr(explained, _OURS, True)
    try:
        setattr(theirs_in, _METHOD, explained)
    except (AttributeError, TypeError) as error:
        _log.debug("safekept: /rollback is left as it is: %s", error)
