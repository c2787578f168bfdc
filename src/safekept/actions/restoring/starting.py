"""What has to be started after a home came to a machine, and how: safekept installs and starts none of it."""

from __future__ import annotations

import os
import shlex
import shutil

from safekept.core.owner import foreign_owner

from ..base.context import HomeRef, UserContext
from .wrappers import profiles_of


def starting_hints(place: HomeRef) -> list[str]:
    """What a backup does not hold, and the commands that bring it."""
    layout, home = place.layout, place.home
    hints = []
    if foreign_owner(home) is not None:
        return []
    if layout.code_hint and not os.path.isdir(os.path.join(home, layout.code_path)):
        hints.append(f"The agent's own code is not part of a backup; bring it with `{layout.code_hint}`")
    if layout.service_hint:
        hints.append(f"No service was installed; if you want one: `{layout.service_hint}`")
    if layout.profile_service_hint:
        hints += [
            f"For profile {name}: `{layout.profile_service_hint.format(profile=name)}`"
            for name in profiles_of(place)
        ]
    return hints


def start_command(place: HomeRef, context: UserContext) -> str:
    """The command that starts the agent with this home; "" where the layout knows none."""
    layout = place.layout
    if not layout.wrapper_command:
        return ""
    usual = os.path.join(context.places.user_home, layout.default)
    if not layout.variable or os.path.realpath(usual) == os.path.realpath(place.home):
        return layout.wrapper_command
    return f"{layout.variable}={shlex.quote(place.home)} {layout.wrapper_command}"


def is_installed(place: HomeRef, context: UserContext) -> bool:
    """Whether the agent's own command is there."""
    search = context.caller.environment.get("PATH", "")
    return bool(shutil.which(place.layout.wrapper_command, path=search))
