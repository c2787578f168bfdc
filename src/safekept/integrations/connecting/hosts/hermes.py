"""Hermes: the plugin's files in its home, and the plugin's name in `plugins.enabled` of config.yaml."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from safekept.actions.base.context import UserContext
from safekept.actions.base.own_places import known_homes
from safekept.core.agents import recognise_home
from safekept.core.owner import foreign_owner
from safekept.core.spelling import shell_line, shown

from ..host import HostFile, HostSettings
from ..program import Program
from ..settings_file import Unfit, read_settings


def home(context: UserContext) -> str:
    """The home that Hermes works in when it is started like this; of a profile, the profile's own."""
    from ...hermes.install import hermes_home

    user_home = {"HOME": context.places.user_home}
    root = known_homes(context)[0] if context.choices.default_home else ""
    usual = os.path.realpath(hermes_home(user_home))
    if root in ("", usual) or not _is_one(context, root):  # or it is another agent's
        root = ""
    return hermes_home({**user_home, **context.caller.environment}, root)


def _is_one(context: UserContext, home: str) -> bool:
    return foreign_owner(home) is None and recognise_home(home, context.home_places) == "hermes"


def files(context: UserContext, scope: str) -> Sequence[HostFile]:
    from ...hermes.install import host_files

    return host_files(scope or home(context), context.caller.environment)


def check(context: UserContext, scope: str) -> None:
    from safekept.home.layout import check_home

    check_home(scope, context.layout("hermes"))


def switched_off(context: UserContext, scope: str) -> str:
    path = os.path.join(scope, "config.yaml")
    try:
        content = read_settings(path).content or b""
    except Unfit:
        return ""
    if b"safekept" not in content:
        return ""
    from ...hermes.enabling import is_disabled

    try:
        return f"`plugins.disabled` in {path}" if is_disabled(content.decode()) else ""
    except (Unfit, UnicodeDecodeError):
        return ""


def elsewhere(context: UserContext, scope: str) -> str:
    """The home directory of the user whom `connection.json` names, where a home was brought from that one."""
    from ...hermes.install import connected_user

    user = connected_user(scope)
    same = not user or os.path.realpath(user) == os.path.realpath(context.places.user_home)
    return "" if same else user


def notes(context: UserContext, scope: str) -> tuple[str, ...]:
    return (
        "Restart Hermes, and its gateway where one runs: plugins are loaded when it starts",
        "In gateways (Telegram, Discord, …) `/rollback`, `/snapshot` and `/snap` are safekept's now",
        "In the CLI, where Hermes keeps those names: `/rewind`, `/checkpoint`, `/restore` and `/safekept`",
        "`hermes safekept …` calls safekept from anywhere",
        *_other_profiles(scope),
    )


def unguarded(context: UserContext) -> str:
    from ...hermes.update_wrapper import replaced_wrapper

    return replaced_wrapper(context)


def guard_again(context: UserContext, program: Program) -> str:
    from ...hermes.update_wrapper import guard_updates, replaced_wrapper

    return guard_updates(context, program.words) if replaced_wrapper(context) else ""


def profiles(context: UserContext) -> tuple[str, ...]:
    """The homes of all profiles, and the home above them where Hermes works in one of them.

    So for each home of Hermes that the settings name.
    """
    here = home(context)
    above = os.path.dirname(here)
    roots = {os.path.realpath(here): here}
    if os.path.basename(above) == "profiles":
        roots = {os.path.realpath(os.path.dirname(above)): os.path.dirname(above)}
    roots |= {path: path for path in known_homes(context) if path not in roots and _is_one(context, path)}
    found = []
    for root in roots.values():
        found.append(root)
        with contextlib.suppress(OSError):
            below = os.path.join(root, "profiles")
            found += [
                path for one in sorted(os.listdir(below)) if os.path.isdir(path := os.path.join(below, one))
            ]
    return tuple(path for path in found if path != here)


def _other_profiles(scope: str) -> tuple[str, ...]:
    """Each profile is a home with settings of its own; one that was forgotten would not be protected."""
    above = os.path.join(scope, "profiles")
    with contextlib.suppress(OSError):
        homes = [os.path.join(above, name) for name in sorted(os.listdir(above))]
        left = [one for one in homes if os.path.isdir(one) and not os.path.isdir(_plugin_in(one))]
        return tuple(
            f"The profile {shown(os.path.basename(one))} is not connected: "
            f"`{shell_line(['safekept', 'connect', 'hermes', '--home', one])}`"
            for one in left
        )
    return ()


def _plugin_in(home: str) -> str:
    from ...hermes.install import plugin_directory

    return plugin_directory(home)


def leftovers(scope: str) -> list[str]:
    from ...hermes.install import leftovers as found

    return found(scope)


def in_full(path: str) -> bool:
    return os.path.basename(path) in ("config.yaml", "connection.json")


HOST = HostSettings(
    "hermes",
    "Hermes",
    ("hermes",),
    home,
    files,
    notes,
    switched_off,
    elsewhere,
    in_projects=False,
    scope=home,
    profiles=profiles,
    check=check,
    leftovers=leftovers,
    in_full=in_full,
    unguarded=unguarded,
    guard_again=guard_again,
    waiting="restart Hermes",
)
