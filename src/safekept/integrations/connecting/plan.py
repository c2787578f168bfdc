"""What connecting or disconnecting would change, file by file, with a diff to look at first."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Sequence

from safekept.actions.base.context import UserContext
from safekept.actions.hosts.connections import Connection, connection_of, read_copy
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.core.spelling import shown

from .host import HostFile, HostSettings
from .program import Program
from .settings_file import (
    SettingsFile,
    SettingsLeftAlone,
    Unfit,
    check_writable,
    digest,
    missing_directories,
    read_settings,
)

_NOWHERE = "/dev/null"


@dataclass(frozen=True, slots=True)
class Edit:
    """One file: what is there, and what will be."""

    file: SettingsFile
    after: bytes | None  # None: the file goes
    base: bytes | None = None  # what `connect --remove` brings back; None: there was no file
    new_mode: int = 0o600
    known: bool = False  # what is replaced is as connecting left it: no copy is needed
    in_full: bool = True  # False: one line says that the file comes, goes or changes

    @property
    def changes(self) -> bool:
        return self.after != self.file.content

    @property
    def whole_file(self) -> tuple[str, str]:
        """What happens to the file, and in which directory."""
        verb = "removed" if self.after is None else "new" if self.file.content is None else "changed"
        return verb, shown(os.path.dirname(self.file.path))

    def diff(self) -> str:
        """A unified diff; a file that is not there is `/dev/null`."""
        if not self.changes:
            return ""
        name, before = shown(self.file.path), self.file.content
        if not self.in_full:
            verb, _ = self.whole_file
            return f"{'---' if self.after is None else '+++'} {name} ({verb})"
        old = _lines(before)
        new = _lines(self.after)
        lines = difflib.unified_diff(
            old,
            new,
            _NOWHERE if before is None else name,
            _NOWHERE if self.after is None else name,
            n=3,
        )
        shown_lines = []
        for line in lines:
            shown_lines.append(line.rstrip("\r\n"))
            if not line.endswith("\n") and line[:1] in "+- ":
                shown_lines.append("\\ No newline at end of file")
        return "\n".join(shown_lines)


def _lines(content: bytes | None) -> list[str]:
    if content is None:
        return []
    *whole, last = content.decode("utf-8", "backslashreplace").split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one command would do to the settings of one host."""

    host: str
    scope: str  # a project, or the home of Hermes; "": for this user, everywhere
    place: str  # the settings that it is about
    command: tuple[str, ...]
    edits: tuple[Edit, ...]
    notes: tuple[str, ...] = ()  # what a person must know or do besides
    connecting: bool = True
    directories: tuple[str, ...] = ()  # to be removed again where they are empty
    leftovers: tuple[str, ...] = ()  # what others left beside our own files, and goes with them

    @property
    def changes(self) -> bool:
        return any(edit.changes for edit in self.edits)

    @property
    def written(self) -> dict[str, int]:
        """The files that are written, each once; those of our own plugin by their directory, and how many."""
        paths = [edit.file.path for edit in self.edits if edit.changes]
        own = {os.path.dirname(edit.file.path) for edit in self.edits if not edit.in_full}
        plugin = [os.path.join(os.path.dirname(path), "") for path in paths if os.path.dirname(path) in own]
        settings = [path for path in paths if os.path.dirname(path) not in own]
        return dict.fromkeys(settings, 1) | {path: plugin.count(path) for path in plugin}

    def diff(self) -> str:
        return "\n".join(filter(None, (edit.diff() for edit in self.edits)))


# From a host and its files to a plan: what connecting or disconnecting would change, and what it keeps.
# Nothing is written here. A file that cannot be edited safely ends the plan with what a person can do.


def plan_connect(context: UserContext, host: HostSettings, program: Program, scope: str = "") -> Plan:
    """What connecting would change; nothing where everything is as it should be."""
    place = host.files(context, scope)[-1].path
    record = connection_of(context, host.name, scope, place)
    edits: list[Edit] = []
    directories = list(record.directories) if record else []
    present: list[str] = []
    for one in host.files(context, scope):
        try:
            file = read_settings(one.path)
            after = one.put(file.content, program)
            if after != file.content:
                check_writable(file)
            base = _base(context, record, one, file)
        except Unfit as unfit:
            raise _left_alone(host, one, program, unfit) from None
        directories += [path for path in missing_directories(file.target) if path not in directories]
        present += [file.target] if file.content is not None else []
        edits.append(Edit(file, after, base, one.new_mode, in_full=host.in_full(one.path)))
    if record is None:
        directories = [*_ours_alone([*present, *host.leftovers(scope)]), *directories]
    return Plan(
        host.name,
        scope,
        place,
        program.hook(host.name),
        tuple(edits),
        host.notes(context, scope),
        directories=tuple(directories),
    )


def _ours_alone(ours: Sequence[str]) -> list[str]:
    """Directories for plugins in which nothing but ours lies, outermost first: they came with a home from a
    machine that connected it, and go with the rest."""
    found: list[str] = []
    for path in ours:
        directory = os.path.dirname(path)
        while os.path.basename(directory) in ("safekept", "plugins") and directory not in found:
            with contextlib.suppress(OSError):
                inside = {os.path.join(directory, name) for name in os.listdir(directory)}
                if not inside - set(ours) - set(found):
                    found.append(directory)
            directory = os.path.dirname(directory)
    return sorted(found, key=len)


def plan_disconnect(context: UserContext, host: HostSettings, scope: str = "") -> Plan:
    """What disconnecting would change: the file as it was, or without our entries where others wrote."""
    place = host.files(context, scope)[-1].path
    record = connection_of(context, host.name, scope, place)
    edits: list[Edit] = []
    for one in reversed(host.files(context, scope)):  # what calls the rest goes first
        try:
            file = read_settings(one.path)
            if file.content is None or not _has_ours(one, file.content, record):
                continue
            after = _as_before(context, record, one, file)
            if after != file.content:
                check_writable(file)
        except Unfit as unfit:
            raise _not_taken_out(host, one, unfit) from None
        kept = record.file(one.path) if record else None
        known = kept is not None and kept.left == digest(file.content)
        edits.append(Edit(file, after, after, one.new_mode, known, host.in_full(one.path)))
    command = record.command if record else ()
    directories = record.directories if record else ()
    left = tuple(host.leftovers(scope))
    return Plan(host.name, scope, place, command, tuple(edits), (), False, directories, left)


def _has_ours(one: HostFile, content: bytes, record: Connection | None) -> bool:
    """Whether there is anything to take out. A file that cannot be read has nothing where none was put."""
    try:
        return bool(one.commands(content))
    except Unfit:
        if record is None and b"safekept" not in content:
            return False
        raise


def _base(context: UserContext, record: Connection | None, one: HostFile, file: SettingsFile) -> bytes | None:
    """The file as it was before us: what disconnecting brings back while no other program writes to it."""
    if file.content is None:
        return None
    if not one.commands(file.content):
        return file.content
    return _as_before(context, record, one, file)


def _as_before(
    context: UserContext, record: Connection | None, one: HostFile, file: SettingsFile
) -> bytes | None:
    content = file.content
    assert content is not None
    kept = record.file(one.path) if record else None
    copy = read_copy(context, kept.copy) if kept else None
    known = kept is not None and (copy is not None or not kept.copy)
    if known and kept is not None and digest(content) == kept.left:
        return copy
    return one.take(content, copy)


def _left_alone(host: HostSettings, one: HostFile, program: Program, unfit: Unfit) -> SettingsLeftAlone:
    return SettingsLeftAlone(
        f"`{shown(one.path)}` {unfit}",
        kept="The file is as it was; nothing was changed",
        next_steps=(
            NextStep(
                "connect", before=f"Put these lines into it yourself, then look whether {host.title} calls:"
            ),
            NextStep("connect", (host.name,), before="Or mend the file and run", after=" again"),
        ),
        path=one.path,
        lines=one.lines(program),
    )


def _not_taken_out(host: HostSettings, one: HostFile, unfit: Unfit) -> SettingsLeftAlone:
    return SettingsLeftAlone(
        f"`{shown(one.path)}` {unfit}",
        kept="The file is as it was; nothing was changed",
        next_steps=(
            f"Take out yourself what calls `hook {host.name}`",
            NextStep("connect", (host.name, "--remove"), before="Or mend the file and run", after=" again"),
        ),
        path=one.path,
        lines="",
    )
