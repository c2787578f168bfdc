"""A whole command handed to the user whose place it is about: the same program begins again as that user.

Nothing of root's goes along: a new interpreter with a new memory, without root's variables and without any
descriptor but the terminal's. What is kept for that user is kept where that user keeps things.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from .child import USUAL_PATH
from .ownership import Owner, chosen_by

#: For users without a home directory of their own: each has one here, closed to all others.
STORES = "/var/lib/safekept-projects"
#: How the terminal is, and the language that root reads; nothing that could change what is done.
_KEPT = ("TERM", "COLUMNS", "LINES", "NO_COLOR", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ")
_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from importlib import import_module; import_module(sys.argv.pop(1)).main(json.loads(sys.argv.pop(1)))"
)


def own_place(owner: Owner) -> str:
    """Where this user keeps things: the home directory, or where there is none one that root makes here."""
    with_home = owner.home not in ("", "/") and os.path.isdir(owner.home)
    if with_home and os.stat(owner.home).st_uid == owner.uid and chosen_by(owner.home, owner.uid):
        return owner.home
    place = os.path.join(STORES, str(owner.uid))
    # Root's own names all the way: no user can have put a link there.
    os.makedirs(os.path.dirname(STORES), exist_ok=True)
    for directory, mode in ((STORES, 0o711), (place, 0o700)):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)
            os.chmod(directory, mode)
    facts = os.lstat(place)
    if facts.st_uid == 0 and stat.S_ISDIR(facts.st_mode):
        os.chown(place, owner.uid, owner.gid, follow_symlinks=False)
    return place


def hand_over(owner: Owner, module: str, words: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Begin again as that user: `main` of the module gets the user's numbers and gives root's rights away."""
    path = json.dumps([place for place in sys.path if os.path.isabs(place)])
    numbers = json.dumps([owner.uid, owner.gid, *owner.groups])
    kept = {name: environment[name] for name in _KEPT if name in environment}
    own = {**kept, "PATH": USUAL_PATH, "HOME": own_place(owner), "USER": owner.name, "LOGNAME": owner.name}
    command = [sys.executable, "-I", "-B", "-c", _START, path, module, numbers, *words]
    os.execve(sys.executable, command, own)  # noqa: S606 - no shell is wanted
