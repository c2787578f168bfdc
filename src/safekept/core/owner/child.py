"""The child: a fresh interpreter that becomes the owner of a place before its first look at it.

It starts with nothing of root's but two pipes: no key, since its memory is new; no store, since every
other descriptor is closed and its rights are gone. What it needs to run is loaded before it gives its
rights away, since safekept may be installed where only root can read. Then it can neither be traced by
the user it became nor get rights back from any program it starts. What it says is taken as what a
stranger says: plain data, checked.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from ..entries import EntryLost, Outcome, Remark
from ..errors import ERROR_CODES, SafekeptError
from ..events import Event, Listener
from ..next_step import read_step
from ..platform import rights
from .ownership import Owner
from .pipe import Handler, OwnerPipe, PipeClosed

_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from importlib import import_module; import_module(sys.argv[1]).main(*map(int, sys.argv[2:]))"
)
#: Seconds for a child to take a landing back; one that needs longer is ended, and the next command does it.
_PATIENCE = 60.0
USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"


class OwnerChildFailed(SafekeptError):
    code = "owner-child-failed"


class OwnerNotPermitted(SafekeptError):
    code = "owner-not-permitted"


class OwnerChild:
    """A running child. One for each owner, kept until this process ends."""

    def __init__(self, owner: Owner, module: str, home: str) -> None:
        self.owner = owner
        numbers = [str(owner.uid), str(owner.gid), *map(str, owner.groups)]
        path = json.dumps([place for place in sys.path if os.path.isabs(place)])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", _START, path, module, *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": USUAL_PATH, "LC_ALL": "C.UTF-8", "HOME": home},
            start_new_session=True,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._line = OwnerPipe(
            self._process.stdout.fileno(),
            self._process.stdin.fileno(),
            encode=lambda value: pickle.dumps(value),
            decode=lambda data: json.loads(data),
            failure=exception_as_data,
            raised=self._raised,
        )

    @property
    def alive(self) -> bool:
        return not self._line.broken and self._process.poll() is None

    def ask(
        self,
        name: str,
        *arguments: object,
        handlers: Mapping[str, Handler] | None = None,
        listener: Listener | None = None,
    ) -> tuple[Any, bytes]:
        """Have something done. Raises what it raised, as the same class where that is known here."""
        if listener is not None:
            self._line.on_event = lambda value: listener(event_from(value))
        try:
            return self._line.ask(name, *arguments, handlers=handlers)
        except PipeClosed:
            raise self._failed("it ended without an answer") from None
        except PermissionError as error:
            raise OwnerNotPermitted(
                f"`{self.owner.name}` may not do that: `{error.filename}`: {error.strerror}",
                kept="Root does in a user's place only what that user may do; nothing was changed",
                next_steps=(
                    f"Give the place to `{self.owner.name}`, or let that user reach it, then run it again",
                    "Or name a directory that belongs to root, as are all those above it",
                ),
                owner=self.owner.name,
                path=error.filename,
            ) from error
        except BaseException:
            if self._line.broken:  # Ctrl-C, or the time is over
                self.end()  # it takes back what it began, and that is waited for
            raise

    def end(self) -> None:
        """Let go of the pipes: a child without them takes back what it began and ends by itself."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _raised(self, document: Any) -> BaseException:
        try:
            return raised_from(document)
        except (KeyError, TypeError, ValueError, AttributeError):
            return self._failed(str(document)[:500])

    def _failed(self, why: str) -> OwnerChildFailed:
        return OwnerChildFailed(
            f"The process that works as `{self.owner.name}` failed: {why}",
            kept="Root changed nothing itself; what that process began is made right by the next command",
            next_steps=(f"Run the command as that user: `{self.owner.in_front} safekept status`",),
            owner=self.owner.name,
        )


_children: dict[tuple[int, int, str], OwnerChild] = {}
_starting = threading.Lock()


def child_of(owner: Owner, module: str, home: str = "") -> OwnerChild:
    """The child of this process that is this owner and answers with `module`; started where there is none.

    `home`: the one it is told, where it is not the one that the machine knows.
    """
    import atexit

    with _starting:
        key = (os.getpid(), owner.uid, module)
        found = _children.get(key)
        if found is not None and not found.alive:
            found.end()
        if found is None or not found.alive:
            if not _children:
                atexit.register(end_children)
            found = _children[key] = OwnerChild(owner, module, home or owner.home)
        return found


def end_children() -> None:
    """End those that this very process started."""
    for key in [key for key in _children if key[0] == os.getpid()]:
        _children.pop(key).end()


def become(uid: int, gid: int, groups: tuple[int, ...]) -> None:
    """Give every right away, for good. Raises where anything of root's would be left."""
    os.umask(0o077)
    rights.become(uid, gid, list(groups))
    rights.forbid_more_rights()
    if uid == 0:
        raise PermissionError("the rights of root were not given away")


def exception_as_data(error: BaseException) -> dict[str, Any]:
    """An exception as plain data, for either way."""
    if isinstance(error, EntryLost):
        return {"lost": error.remark.as_dict()}
    if isinstance(error, SafekeptError):
        return {"error": error.as_dict()}
    if isinstance(error, OSError):
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else None
        return {"system": [error.errno or 0, error.strerror or str(error), name]}
    return {"unexpected": f"{type(error).__name__}: {error}"}


def raised_from(document: dict[str, Any]) -> BaseException:
    """The exception that was sent; of a class that is known here, or OwnerChildFailed by the caller."""
    if "lost" in document:
        return EntryLost(remark_from(document["lost"]))
    if "system" in document:
        number, text, name = document["system"]
        return OSError(int(number), str(text), str(name)) if name else OSError(int(number), str(text))
    error = document["error"]
    kind = ERROR_CODES[str(error["code"])]
    facts = {str(name): value for name, value in error["facts"].items() if name not in ("kept", "next_steps")}
    found = kind.__new__(kind)
    steps = tuple(read_step(str(step)) for step in error["next"])
    SafekeptError.__init__(found, str(error["what"]), kept=str(error["kept"]), next_steps=steps, **facts)
    return found


def remark_from(fields: Mapping[str, Any]) -> Remark:
    return Remark(
        str(fields["path"]),
        Outcome(fields["outcome"]),
        str(fields["reason"]),
        int(fields["files"]),
        int(fields["bytes"]),
    )


def event_from(fields: Mapping[str, Any]) -> Event:
    return Event(
        str(fields.get("phase", "")),
        int(fields.get("done", 0)),
        int(fields.get("total", 0)),
        str(fields.get("unit", "bytes")),
        str(fields.get("path", "")),
        str(fields.get("text", "")),
    )
