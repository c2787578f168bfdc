"""A host as connecting sees it: where its settings are, what goes into them, what to say about it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from safekept.actions.base.context import UserContext
from safekept.core.records import dataclass

from .hook_entries import Handler, NotHooks, Wanted, our_handlers, put_in, take_out
from .json_text import NotJson, written
from .program import Program, calls_us, split_line
from .settings_file import Unfit


class HostFile(Protocol):
    """One file of a host that has something of ours."""

    @property
    def path(self) -> str: ...

    @property
    def new_mode(self) -> int: ...

    def put(self, content: bytes | None, program: Program) -> bytes:
        """The content with what is ours, as it should be; Unfit where that cannot be done."""

    def take(self, content: bytes, base: bytes | None) -> bytes | None:
        """The content without what is ours; None: the file can go. `base`: as it was before."""

    def current(self, content: bytes, program: Program) -> bool:
        """Whether it has all that is ours, as it should be."""

    def commands(self, content: bytes) -> list[tuple[str, ...]]:
        """The commands of ours that stand in it."""

    def lines(self, program: Program) -> str:
        """What a person would put in by hand."""


#: Seconds that a host waits for a hook: the first pass of a large project is the longest there is.
SECONDS = 30
#: Of a project's settings that people usually share.
SHARED = "The project's file may be shared with others; the path in it is of this machine"

Files = Callable[[UserContext, str], Sequence[HostFile]]


@dataclass(frozen=True, slots=True)
class HostSettings:
    """One agent program."""

    name: str
    title: str
    programs: tuple[str, ...]  # any of them on the PATH: it is on this machine
    directory: Callable[[UserContext], str]  # its settings directory for this user
    files: Files  # files(context, project); what counts as connected is written last
    notes: Callable[[UserContext, str], tuple[str, ...]] = lambda context, project: ()
    #: The setting, in words, that keeps the host from calling us although it is connected; or "".
    switched_off: Callable[[UserContext, str], str] = lambda context, project: ""
    #: The user whom the entries call for, where that is another one; or "".
    elsewhere: Callable[[UserContext, str], str] = lambda context, scope: ""
    in_projects: bool = True
    #: The scope where none is named: "", or the home that Hermes works in.
    scope: Callable[[UserContext], str] = lambda context: ""
    #: Other scopes with settings of their own: the profiles of Hermes.
    profiles: Callable[[UserContext], tuple[str, ...]] = lambda context: ()
    #: Raises where there is nothing to connect in that scope.
    check: Callable[[UserContext, str], None] = lambda context, scope: None
    #: Files that others leave beside ours, and that go with them.
    leftovers: Callable[[str], list[str]] = lambda scope: []
    #: What a person has to do before it calls, for as long as it never has.
    waiting: str = ""
    #: The command that should run its updates under guard, where something else took its place; or "".
    unguarded: Callable[[UserContext], str] = lambda context: ""
    #: Has its updates guarded again where they were; in words what it did, or "".
    guard_again: Callable[[UserContext, Program], str] = lambda context, program: ""
    #: Whether the diff of this file is shown line by line.
    in_full: Callable[[str], bool] = lambda path: True

    def option(self, context: UserContext, scope: str) -> tuple[str, ...]:
        """The option that names this scope on the command line; none for the usual one."""
        if scope == self.scope(context):
            return ()
        return ("--project" if self.in_projects else "--home", scope)

    def found(self, context: UserContext) -> str:
        """Its settings directory, which says that it is used on this machine; "" where there is none."""
        directory = self.directory(context)
        return directory if os.path.isdir(directory) else ""

    def program(self, context: UserContext) -> str:
        """Where it is installed; "" where it is not on the PATH."""
        search = context.caller.search_path or None
        return next((path for name in self.programs if (path := shutil.which(name, path=search))), "")


@dataclass(frozen=True, slots=True)
class JsonHooks:
    """A JSON file with hooks: `wanted(program)` says which entries."""

    path: str
    host: str
    wanted: Callable[[Program], list[Wanted]]
    beside: Mapping[str, object] = field(default_factory=dict)
    new_mode: int = 0o600

    def put(self, content: bytes | None, program: Program) -> bytes:
        try:
            return put_in(_text(content or b""), self.wanted(program), self._ours, self.beside).encode()
        except (NotJson, NotHooks) as error:
            raise Unfit(_why(error)) from None

    def take(self, content: bytes, base: bytes | None) -> bytes | None:
        try:
            left = take_out(_text(content), self._ours, None if base is None else _text(base))
        except NotJson as error:
            raise Unfit(_why(error)) from None
        return None if left is None else left.encode()

    def current(self, content: bytes, program: Program) -> bool:
        return self.put(content, program) == content

    def commands(self, content: bytes) -> list[tuple[str, ...]]:
        try:
            return [_words(handler) for handler in our_handlers(_text(content), self._ours)]
        except NotJson as error:
            raise Unfit(_why(error)) from None

    def lines(self, program: Program) -> str:
        events: dict[str, list[object]] = {}
        for one in self.wanted(program):
            events.setdefault(one.event, []).append(one.entry)
        return written({**self.beside, "hooks": events}).rstrip("\n")

    def _ours(self, handler: Handler) -> bool:
        return calls_us(_words(handler), self.host)


def _words(handler: Handler) -> tuple[str, ...]:
    """The command of a hook, whether it goes through a shell or not."""
    arguments = handler.get("args")
    if isinstance(arguments, list):
        return (str(handler.get("command")), *map(str, arguments))
    return split_line(handler.get("command") or handler.get("bash"))


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Unfit("is not UTF-8 text") from None


def _why(error: ValueError) -> str:
    if isinstance(error, NotHooks):
        return f"is not as its host would write it: {error}"
    if "comment" in str(error):
        return f"has comments, which an edit would endanger ({error})"
    return f"is not valid JSON ({error})"


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file that is ours as a whole. `made(program)` is its content; `mark` tells it from others'."""

    path: str
    made: Callable[[Program], bytes]
    mark: bytes
    #: The command that stands in it.
    read: Callable[[bytes], tuple[str, ...]] = lambda content: ()
    new_mode: int = 0o644

    def put(self, content: bytes | None, program: Program) -> bytes:
        if content is not None and content.strip() and self.mark not in content:
            raise Unfit("is there already and is not ours")
        return self.made(program)

    def take(self, content: bytes, base: bytes | None) -> bytes | None:
        return base if self.mark in content else content

    def current(self, content: bytes, program: Program) -> bool:
        return self.put(content, program) == content

    def commands(self, content: bytes) -> list[tuple[str, ...]]:
        return [self.read(content)] if self.mark in content else []

    def lines(self, program: Program) -> str:
        return self.made(program).decode()
