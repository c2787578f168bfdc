"""What a host is about to do, in words that belong to no host.

Every way in (a hook program, a plugin, a server, a watcher) turns what it is told into a `Call`; what is
done about it is the same for all of them.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import fields

from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass

#: before: a tool is about to run. after: one tool ended. turn: the user said something. end: the turn
#: ended. hidden: what is hidden in a project is to be kept, by a process of its own. nothing: the host told
#: something that asks for nothing.
KINDS = ("before", "after", "turn", "end", "session-start", "session-end", "hidden", "nothing")


#: Paths up to this length need no second look.
SHORT = 1024
#: Bytes of the longest path that Linux takes, with its end.
_LONGEST = 4096


def possible(path: str) -> str:
    """The same path, without detours where it is very long; "" where no file can have it."""
    if len(path) <= SHORT:
        return path
    path = os.path.normpath(path)
    return path if len(path.encode("utf-8", "replace")) < _LONGEST else ""


@dataclass(frozen=True, slots=True)
class Call:
    """One thing that a host told."""

    kind: str
    host: str
    tool: str = ""  # as the host calls it
    paths: tuple[str, ...] = ()  # files it names, absolute or relative to `directory`
    shell: bool = False  # what it touches is unknown: a full pass of the project around `directory`
    directory: str = ""  # where it works
    session: str = ""
    turn: str = ""
    agent: str = ""  # the subagent that made the call; "" for the main one
    reason: str = ""
    home: str = ""  # the agent's home, where the host knows it
    out_of_reach: str = ""  # a container or a remote back end, in words
    goes_back: bool = False  # it asks safekept itself for a rollback, or to undo one
    words: str = ""  # the first line of what the person said, where that is what the host tells

    def __post_init__(self) -> None:
        # Whatever the host said, from here on every path is one that the system could open: looking a path
        # of 50,000 parts up, level by level, takes seconds.
        if any(len(path) > SHORT for path in (*self.paths, self.directory)):
            paths = tuple(possible(path) for path in self.paths if not path or possible(path))
            object.__setattr__(self, "paths", paths)
            object.__setattr__(self, "directory", possible(self.directory))

    def as_dict(self) -> dict[str, object]:
        """The same for the wire; what is empty is left out."""
        found: dict[str, object] = {"kind": self.kind, "host": self.host}
        for one in fields(self)[2:]:
            value = getattr(self, one.name)
            if value:
                found[one.name] = list(value) if isinstance(value, tuple) else value
        return found

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> Call:
        """What came over the wire. What is missing or of the wrong kind is as if it had not been said;
        an unknown kind asks for nothing."""
        texts = {
            one.name: value
            for one in fields(cls)
            if one.name not in ("paths", "shell", "goes_back")
            and isinstance(value := document.get(one.name), str)
        }
        kind = texts.pop("kind", "nothing")
        host = texts.pop("host", "")
        paths = document.get("paths")
        return cls(
            kind if kind in KINDS else "nothing",
            host,
            paths=tuple(path for path in paths if isinstance(path, str)) if isinstance(paths, list) else (),
            shell=document.get("shell") is True,
            goes_back=document.get("goes_back") is True,
            **texts,
        )


# What one call came to: what holds the old bytes, what does not, and what the user should hear.


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not protected, and why."""

    what: str
    code: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A path that was named and is in no point."""

    path: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a call."""

    checkpoints: tuple[str, ...] = ()  # the points that hold what was there before
    home_point: str = ""
    skipped: tuple[Uncovered, ...] = ()
    failures: tuple[Problem, ...] = ()
    not_kept: tuple[str, ...] = ()  # hidden in the projects of this call, and in none of its points
    notices: tuple[str, ...] = ()  # sentences for the user, each given once in a session
    context: str = ""  # for the model, where its host has a way to tell it; given once
    off: bool = False  # safekept is switched off for this session

    @property
    def complete(self) -> bool:
        """Whether everything that was named is in a point."""
        return not self.off and not self.failures and not self.skipped

    def as_dict(self) -> dict[str, object]:
        return {
            "checkpoints": list(self.checkpoints),
            "home_point": self.home_point,
            "skipped": [dataclasses.asdict(one) for one in self.skipped],
            "failures": [dataclasses.asdict(one) for one in self.failures],
            "not_kept": list(self.not_kept),
            "notices": list(self.notices),
            "context": self.context,
            "off": self.off,
        }


def problem(error: Exception, project: str = "") -> Problem:
    """An error as something to say."""
    if isinstance(error, SafekeptError):
        return Problem(error.what, error.code, project)
    if isinstance(error, OSError):
        what = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        return Problem(what, "unexpected", project)
    return Problem(f"{type(error).__name__}: {error}", "unexpected", project)
