"""Putting a repository back: objects first, then files, refs, HEAD, stashes, index.

Refs are written by git itself, in one transaction that fails where one moved meanwhile; hooks, the
filesystem monitor and every program that a configuration names are off. Objects are written by git in our own
repository, straight into the project's, so no setting of the project's is read for that. Each step can be
done again: one that was killed is done once more by the next command.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from safekept.core.files import sweep_temporaries, temporary_name
from safekept.core.files.small import is_short
from safekept.core.files.tree import LinkSafeTree
from safekept.core.records import dataclass

from ..git import find_git
from .keeping import Kept, WantedObjects, run_bounded
from .moves import Move, RepositoryPlan
from .own_repository import HELD
from .putting import put_file, put_index
from .reading import OBJECT_NAME
from .state import FILE, HEAD, INDEX, LOG, OBJECTS, REF, STASH, RepositoryState, blob_of
from .traps import trap_among, trap_in_objects, trap_in_settings

#: Seconds for everything that is read or written by git.
_WAIT = 600.0
#: Seconds for one call that moves refs.
_CALL = 60.0
_TOO_LONG = "git did not end in time"
_WHO = {"GIT_COMMITTER_NAME": "safekept", "GIT_COMMITTER_EMAIL": "safekept@localhost"}
_STASH_REF = "refs/stash"
#: What git would wait for, or read whole, where it is no file or has no end.
_READ_BY_GIT = {"config": 1 << 20, "config.worktree": 1 << 20, "packed-refs": 64 << 20, "shallow": 64 << 20}
_SETTINGS = ("config", "config.worktree")
_WRITTEN_IN = ("", "info", "hooks", "logs", "logs/refs", "logs/refs/heads", "logs/refs/tags")
#: Of each log.
_MOST_LOGGED = 200
#: Directories of a repository that stay, though they are empty.
_STAY = ("hooks", "info", "logs", "worktrees", "refs", "objects")


@dataclass(slots=True)
class RepositoryRestored:
    """What came of one plan."""

    path: str
    done: list[str] = field(default_factory=list)  # items
    left: list[tuple[str, str, str]] = field(default_factory=list)  # item, a key of STAYS, detail
    remarks: list[str] = field(default_factory=list)
    made: bool = False  # it was gone, and was made again

    @property
    def complete(self) -> bool:
        """Whether everything is as it was, but for what was moved since."""
        return all(reason in ("mine", "since", "elsewhere") for _, reason, _ in self.left)

    def as_dict(self) -> dict[str, object]:
        left = [{"item": name, "reason": reason, "detail": detail} for name, reason, detail in self.left]
        return {
            "path": self.path,
            "made": self.made,
            "done": self.done,
            "left": left,
            "remarks": self.remarks,
        }


class Restoring:
    """One repository that is there. `read` gives the bytes of a blob of the checkpoint store."""

    def __init__(self, plan: RepositoryPlan, kept: Kept, read: Callable[[str], bytes], reason: str) -> None:
        self.plan, self._kept, self._read, self._reason = plan, kept, read, reason
        self.result = RepositoryRestored(plan.path, left=[(name, why, "") for name, why in plan.left])
        self._moves = {move.name: move for move in plan.moves}
        self._stuck = False  # a call of git did not end in time

    def run(self) -> RepositoryRestored:
        now = self.plan.now
        assert now is not None
        for name, most in _READ_BY_GIT.items():
            path = os.path.join(now.common, name)
            if os.path.lexists(path) and not is_short(path, most):
                self._fail(list(self._moves), f"`{name}` is no file that git could read")
                return self.result
        if trap := trap_in_objects(os.path.join(now.common, "objects")):
            self._fail(list(self._moves), f"`objects/{trap}` is no file that git could read")
            return self.result
        self._leave_traps(now)
        for name in _WRITTEN_IN:  # what a killed one of ours left there
            sweep_temporaries(os.path.join(now.common, name))
        sweep_temporaries(now.git)
        self._only_what_is_kept(now)
        self._bring_objects(now)
        self._files(now)
        self._leave_to_settings(now)
        self._refs(now)
        self._head(now)
        self._stashes(now)
        self._index(now)
        return self.result

    # ── steps ──

    def _leave_traps(self, now: RepositoryState) -> None:
        """Of refs and logs it opens those that it moves; the log of HEAD goes with the branch of HEAD."""
        branch = REF + now.items.get(HEAD, "").removeprefix("ref: ")
        for name in list(self._moves):
            ref = HEAD if name == HEAD else _STASH_REF if name == STASH else name.removeprefix(REF)
            if name != HEAD and name != STASH and not name.startswith(REF):
                continue
            base = now.git if ref == HEAD else now.common
            places: list[tuple[str, tuple[str, ...]]] = [(base, (ref, f"logs/{ref}"))]
            if name in (HEAD, branch):
                places.append((now.git, ("logs/HEAD",)))
            for base, names in places:
                if trap := trap_among(base, names):
                    self._leave(name, "failed", f"`{trap}` is no file that git could use")
                    break

    def _leave_to_settings(self, now: RepositoryState) -> None:
        """Every call of git reads the settings, as they are once the files are back."""
        places = (os.path.join(base, name) for base in (now.common, now.git) for name in _SETTINGS)
        if trap := trap_in_settings(*places):
            moves = [name for name in self._moves if name in (HEAD, STASH) or name.startswith(REF)]
            self._fail(moves, f"its settings include `{trap}`, which is no file that git could read")

    def _only_what_is_kept(self, now: RepositoryState) -> None:
        """Nothing is replaced that could not be brought back."""
        held = self._kept.promised()[HELD] | set(now.remote_objects())
        for move in self._refs_to_move():
            if OBJECT_NAME.fullmatch(move.now) and move.now not in held:
                self._leave(move.name, "not-kept")

    def _bring_objects(self, now: RepositoryState) -> None:
        objects = os.path.join(now.common, "objects")
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._kept.opened())
            wanted = wanted_then(self.plan.then, self._read, objects)
            names = [*wanted.tips, *wanted.remote]
            there = not names or self._kept.connected(objects, names, _WAIT)
            if there and not self._moves.keys() & {INDEX, OBJECTS}:
                return
            if index := self.plan.then.items.get(INDEX):  # what is staged may be in no commit
                data = self._read(blob_of(index))
                wanted.index = stack.enter_context(_temporary(self._kept.directory, data))
            stops = now.objects()
            stops = stops if self._kept.connected(objects, stops, _WAIT) else []
            place = os.path.join(objects, "pack")
            if not _is_directory(objects):
                self._fail(list(self._moves), "its objects are no directory")
                return
            with contextlib.suppress(FileExistsError):
                os.mkdir(place)
            if not _is_directory(place):
                self._fail(list(self._moves), "the place of its packs is no directory")
                return
            if self._kept.give(wanted, place, stops, _WAIT):
                self.result.done += [OBJECTS] if OBJECTS in self._moves else []
            elif self._kept.trouble:
                self.result.remarks.append(f"not every object could be brought back: {self._kept.trouble}")

    def _files(self, now: RepositoryState) -> None:
        for move in [move for name, move in self._moves.items() if name.startswith(FILE)]:
            self._doing(move.name, functools.partial(self._file, now.git, move.name[len(FILE) :], move.then))

    def _file(self, base: str, name: str, value: str) -> None:
        if value:
            put_file(base, name, self._read(blob_of(value)), int(value.split(" ")[-2], 8))
            return
        with LinkSafeTree(base) as tree:
            tree.unlink(name)
        above = os.path.dirname(name)
        while above and above not in _STAY:
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(base, above))
            above = os.path.dirname(above)

    def _refs(self, now: RepositoryState) -> None:
        moves = [move for move in self._refs_to_move() if move.name != REF + _STASH_REF]
        direct = [move for move in moves if not _symbolic(move)]
        # What goes is gone before anything comes: `a` may make room for `a/b`.
        going = [f"delete {_ref(move)}\0{move.now}\0" for move in direct if not move.then]
        coming = [f"update {_ref(move)}\0{move.then}\0{move.now}\0" for move in direct if move.then]
        for moving, lines in (
            ([m for m in direct if not m.then], going),
            ([m for m in direct if m.then], coming),
        ):
            if lines and not self._transaction(now, lines):
                self._one_by_one(now, list(zip(moving, lines, strict=True)))
            elif lines:
                self.result.done += [move.name for move in moving]
        for move in moves:
            if _symbolic(move):
                words = (
                    ("symbolic-ref", _ref(move), move.then[5:])
                    if move.then
                    else ("symbolic-ref", "-d", _ref(move))
                )
                self._git(now, move.name, *words)
        for move in direct:
            if move.then and not move.now:
                self._log(now, _ref(move))

    def _transaction(self, now: RepositoryState, lines: Sequence[str]) -> bool:
        data = "".join(["start\0", *lines, "prepare\0", "commit\0"])
        return not self._said(
            now, "update-ref", "--no-deref", "--create-reflog", "-m", self._reason, "-z", "--stdin", data=data
        )

    def _one_by_one(self, now: RepositoryState, moving: Sequence[tuple[Move, str]]) -> None:
        """One of many is in the way: the others come back all the same."""
        for move, line in moving:
            words = ("update-ref", "--no-deref", "--create-reflog", "-m", self._reason, "-z", "--stdin")
            self._git(now, move.name, *words, data=line)

    def _head(self, now: RepositoryState) -> None:
        move = self._moves.get(HEAD)
        if move is None or not move.then:
            return
        if move.then.startswith("ref: "):
            self._git(now, HEAD, "symbolic-ref", "-m", self._reason, HEAD, move.then[5:])
        else:
            self._git(now, HEAD, "update-ref", "--no-deref", "-m", self._reason, HEAD, move.then)

    def _stashes(self, now: RepositoryState) -> None:
        """The newest one is a ref; the older ones exist in its log only."""
        ref, log = self._moves.get(REF + _STASH_REF), self._moves.get(STASH)
        if ref is None and log is None:
            return
        then = self.plan.then.items.get(REF + _STASH_REF, "")
        if not then:
            self._git(now, STASH, "update-ref", "--no-deref", "-d", _STASH_REF, *([ref.now] if ref else []))
            return
        if self._git(
            now, STASH, "update-ref", "--no-deref", "--create-reflog", "-m", self._reason, _STASH_REF, then
        ):
            self._log(now, _STASH_REF, self.plan.then.items.get(STASH, ""))

    def _log(self, now: RepositoryState, ref: str, value: str = "") -> None:
        value = value or self.plan.then.items.get(LOG + ref, "")
        if value:
            with contextlib.suppress(OSError):
                put_file(now.common, f"logs/{ref}", self._read(blob_of(value)), 0o644)

    def _index(self, now: RepositoryState) -> None:
        move = self._moves.get(INDEX)
        if move is not None and move.then:
            self._doing(INDEX, lambda: put_index(now.git, self._read(blob_of(move.then))))

    # ── how ──

    def _refs_to_move(self) -> list[Move]:
        return [move for name, move in self._moves.items() if name.startswith(REF)]

    def _doing(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            self._leave(name, "failed", error.strerror or str(error))
        else:
            self.result.done.append(name)

    def _git(self, now: RepositoryState, name: str, *words: str, data: str = "") -> bool:
        trouble = self._said(now, *words, data=data)
        if trouble:
            missing = any(sign in trouble for sign in ("nonexistent object", "bad object", "missing"))
            self._leave(name, "missing" if missing else "failed", trouble)
        else:
            self.result.done.append(name)
        return not trouble

    def _said(self, now: RepositoryState, *words: str, data: str = "") -> str:
        """What git complained of; empty where it did it."""
        git = find_git()
        if git is None:
            return "git is not on this machine"
        if self._stuck:  # what it waited for, it waits for again
            return _TOO_LONG
        done = run_bounded(git, now.git, *words, data=data, until=time.monotonic() + _CALL, more=_WHO)
        if done is None:
            self._stuck = True
            return _TOO_LONG
        said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1][:200]
        return "" if done.returncode == 0 else said or "git failed"

    def _leave(self, name: str, why: str, detail: str = "") -> None:
        self._moves.pop(name, None)
        self.result.left.append((name, why, detail))

    def _fail(self, names: Sequence[str], detail: str) -> None:
        for name in names:
            self._leave(name, "failed", detail)


def wanted_then(then: RepositoryState, read: Callable[[str], bytes], objects: str) -> WantedObjects:
    """What has to be there for a state to be whole; every stash, too."""
    wanted = WantedObjects(objects, remote=then.remote_objects())
    remote = set(wanted.remote)
    wanted.tips = [oid for oid in then.objects() if oid not in remote]
    if then.items.get(STASH):
        wanted.tips += stashes_in(read(then.items[STASH]))
    # Logs come back, too: what they name has to be there, as far as it is anywhere.
    logs = (blob_of(value) for name, value in then.items.items() if name.startswith(LOG))
    wanted.logged = [oid for log in logs for oid in stashes_in(read(log))[-_MOST_LOGGED:] if oid.strip("0")]
    return wanted


def stashes_in(log: bytes) -> list[str]:
    """The objects of a stash log, the oldest first."""
    fields = [line.split(" ", 2) for line in log.decode("utf-8", "replace").split("\n")]
    return [parts[1] for parts in fields if len(parts) == 3 and OBJECT_NAME.fullmatch(parts[1])]


@contextlib.contextmanager
def _temporary(directory: str, data: bytes) -> Iterator[str]:
    path = temporary_name(directory)
    put_file(directory, os.path.basename(path), data, 0o600)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _symbolic(move: Move) -> bool:
    return (move.then or move.now).startswith("ref:")


def _ref(move: Move) -> str:
    return move.name[len(REF) :]


def _is_directory(path: str) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISDIR(os.stat(path).st_mode)
    return False
