"""A command of root's about a user's project: it begins again as that user, who also keeps the points.

Points lie with the owner of the project. So `sudo safekept rollback 1` finds what an agent that runs as the
user kept there, and nothing that the user put into the project is met by root.
"""

from __future__ import annotations

import os
import sys

from safekept.core.owner import foreign_owner

from .console import Console, path_text

#: What the commands here may need, while it can still be read.
_NEEDED = ["encodings"] + [
    f"safekept.{name}"
    for name in (
        "core checkpoints vault home schedule settings actions.base actions.alarms actions.hosts "
        "actions.projects actions.undo integrations.connecting cli.words cli.commands.projects"
    ).split()
]
#: Modules of others that are loaded only when they are needed.
_ALSO = (
    "array atexit bisect calendar concurrent.futures.thread ctypes difflib fcntl hashlib pwd select shlex "
    "sqlite3 subprocess termios tomllib traceback uuid zlib click.shell_completion resource pyfastcdc "
    "tomlkit ruamel.yaml.composer ruamel.yaml.error ruamel.yaml.nodes"
).split()
_LEFT_ALONE = (
    "safekept.core.processes.foreground",
    "safekept.home.as_owner",
    "safekept.checkpoints.as_owner",
)


def begin_as_owner(place: str) -> None:
    """Return at once, or never: as root, in a user's place, the command line is run as that user."""
    owner = foreign_owner(place)
    if owner is None:
        return
    from safekept.core.owner import hand_over

    Console(as_json=False).say(f"Note: done as `{owner.name}`, to whom {path_text(place)} belongs.")
    hand_over(owner, __name__, sys.argv[1:], os.environ)


def main(user: list[int]) -> None:
    """The same command again, in a process that is that user from here on."""
    if not all(_readable_by_all(place) for place in sys.path):
        load_everything()
    from safekept.core.owner import become

    become(user[0], user[1], tuple(user[2:]))
    from .main import main as front_door

    front_door()


def load_everything() -> None:
    from safekept.core.owner import load_packages

    load_packages(_NEEDED, _ALSO, _LEFT_ALONE)


def _readable_by_all(place: str) -> bool:
    """Whether any user can read the code there, and so load it when it is needed."""
    while place != "/" and os.path.exists(place):
        if os.stat(place).st_mode & 0o005 != 0o005:
            return False
        place = os.path.dirname(place)
    return True
