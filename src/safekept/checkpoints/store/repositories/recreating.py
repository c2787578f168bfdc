"""A repository that is gone, made again beside its place and renamed into it.

Everything small comes out of the point; objects are packed by git in our own repository, straight into the
new one. What only a remote had is left to a fetch, and that is said. Where something of it is left, that
stays: only what makes it a repository again is added, and the rest is put back as in one that was never gone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from safekept.core.files import fsync_directory
from safekept.core.platform.syncing import sync_filesystem

from .keeping import Kept
from .locating import is_head, is_whole
from .moves import RepositoryPlan
from .putting import put_file
from .restoring import RepositoryRestored, wanted_then
from .state import DOT_GIT, FILE, HEAD, INDEX, LOG, REF, REMOTE, STASH, RepositoryState, blob_of

_WAIT = 1800.0


class Recreating:
    """One repository of a project."""

    def __init__(
        self, project: str, plan: RepositoryPlan, kept: Kept, read: Callable[[str], bytes], undo: str
    ) -> None:
        self.plan, self._kept, self._read, self._undo = plan, kept, read, undo
        self._then = plan.then
        self._work = os.path.join(project, plan.path) if plan.path else project
        self.result = RepositoryRestored(plan.path, made=True)

    def run(self) -> RepositoryRestored:
        """Raises OSError; what was begun is gone then."""
        then = self._then
        if not os.path.isdir(self._work):
            os.makedirs(self._work)
        if then.linked and not is_whole(then.common, then.common):
            self.result.left = [(HEAD, "main-gone", then.common)]
            self.result.made = False
            return self.result
        if not os.path.lexists(then.git):
            self._make(then)
        dot_git = os.path.join(self._work, ".git")
        if then.git != dot_git and not os.path.lexists(dot_git) and DOT_GIT in then.items:
            put_file(self._work, ".git", self._read(then.items[DOT_GIT]), 0o644)
        self.result.done = [name for name in then.items if not name.startswith(LOG)]
        return self.result

    def _make(self, then: RepositoryState) -> None:
        above = os.path.dirname(then.git)
        os.makedirs(above, exist_ok=True)
        temporary = f"{then.git}.safekept"  # the same every time: what a killed one left is not left twice
        shutil.rmtree(temporary, ignore_errors=True)
        os.mkdir(temporary)
        try:
            self._fill(temporary, then)
            sync_filesystem(temporary)
            os.rename(temporary, then.git)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        fsync_directory(above)

    def _fill(self, place: str, then: RepositoryState) -> None:
        names = () if then.linked else ("objects/info", "objects/pack", "refs/heads", "refs/tags")
        for name in (*names, "info", "hooks", "logs"):
            os.makedirs(os.path.join(place, name))
        for name, value in then.items.items():
            if name.startswith(FILE):
                mode = int(value.split(" ")[-2], 8)
                self._put(place, name[len(FILE) :], self._read(blob_of(value)), mode)
            elif name.startswith(LOG):
                self._put(place, f"logs/{name[len(LOG) :]}", self._read(blob_of(value)), 0o644)
        if INDEX in then.items:
            self._put(place, "index", self._read(blob_of(then.items[INDEX])), 0o644)
        if then.linked:  # its refs and objects are those of the main repository, and are put back there
            self._put(place, HEAD, then.items[HEAD].encode() + b"\n", 0o644)
            return
        if STASH in then.items:
            self._put(place, "logs/refs/stash", self._read(blob_of(then.items[STASH])), 0o644)
        without = () if self._objects(place, then) else (REMOTE,)
        if any(value.startswith("scrubbed ") for value in then.items.values()):
            self.result.remarks.append("names and tokens in its configuration are not stored: set them again")
        lines = ["# pack-refs with: sorted \n"]
        for name, value in sorted(then.items.items()):
            if not name.startswith(REF) or (without and name.startswith(without)):
                continue
            ref = name[len(REF) :]
            if value.startswith("ref:"):
                self._put(place, ref, os.fsencode(value) + b"\n", 0o644)
            else:
                lines.append(f"{value} {ref}\n")
        self._put(place, "packed-refs", os.fsencode("".join(lines)), 0o644)
        self._put(place, HEAD, os.fsencode(then.items.get(HEAD) or "ref: refs/heads/main") + b"\n", 0o644)

    def _objects(self, place: str, then: RepositoryState) -> bool:
        """Whether everything is there, what a remote had included."""
        wanted = wanted_then(then, self._read, "")
        wanted.index = os.path.join(place, "index") if INDEX in then.items else ""
        whole = self._kept.give(wanted, os.path.join(place, "objects", "pack"), (), _WAIT)
        for name in os.listdir(os.path.join(place, "objects", "pack")):
            os.chmod(os.path.join(place, "objects", "pack", name), 0o444)
        if not whole:
            self.result.left.append(("objects", "missing", self._kept.trouble))
            if wanted.remote:
                self.result.remarks.append("history that a remote has was not kept here: run `git fetch`")
        return whole

    def _put(self, place: str, name: str, data: bytes, mode: int) -> None:
        """Plain directories on the way, as git makes them."""
        os.makedirs(os.path.join(place, os.path.dirname(name)), exist_ok=True)
        put_file(place, name, data, mode)


def mend_shell(then: RepositoryState, undo: str) -> None:
    """Make what is left of a repository one again: its three directories and HEAD. Raises OSError.

    What stands in their place and is none of that is moved aside.
    """
    places = [(then.git, name) for name in ("refs", "objects")] if not then.linked else []
    for base, name in places:
        path = os.path.join(base, name)
        if os.path.lexists(path) and not os.path.isdir(path):
            os.rename(path, f"{path}.before-{undo}")
        os.makedirs(path, exist_ok=True)
    if not then.linked:
        os.makedirs(os.path.join(then.git, "objects", "pack"), exist_ok=True)
    head = os.path.join(then.git, HEAD)
    if not is_head(head):
        if os.path.lexists(head):
            os.rename(head, f"{head}.before-{undo}")
        put_file(then.git, HEAD, os.fsencode(then.items[HEAD]) + b"\n", 0o644)
