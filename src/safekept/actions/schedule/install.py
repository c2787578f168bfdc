"""Ask this host to wake us, and take that back: a plan to look at first, then the deed, both written down.

What was installed is remembered with a hash of every file, so that taking it away takes exactly that: a file
that was changed since stays where it is, and is reported. Where a step of installing fails, the files
that were written for it are taken back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, field

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files import durable_write, private_directory
from safekept.core.files.small import read_document, read_regular
from safekept.core.journal import new_id
from safekept.core.next_step import Step
from safekept.core.records import dataclass
from safekept.schedule.hosts import cron
from safekept.schedule.hosts.call import MARK
from safekept.schedule.hosts.stores import Stores

from ..base.context import UserContext
from ..base.operations.care import ScheduleInstallFacts, ScheduleRemoveFacts
from ..base.record import record, recording
from .host_commands import (
    TAKEN_BACK,
    HostRefused,
    Runner,
    attempt,
    expect,
    not_written,
    read_table,
    write_table,
)
from .whose import another_runs, files_of_others, stores_of

__all__ = ["CRON", "LAUNCHD", "SYSTEMD", "HostRefused", "Installation", "Installed", "Removed"]

_TABLE_LEFT = "Your crontab was left as it is"

SYSTEMD, LAUNCHD, CRON = "systemd", "launchd", "cron"


class FileTaken(SafekeptError):
    code = "schedule-file-taken"


class NotInstalled(SafekeptError):
    code = "schedule-not-installed"


@dataclass(frozen=True, slots=True)
class Installation:
    """What would be written and started; nothing is, until `install` is called with it."""

    host: str  # systemd, launchd or cron
    user: str = ""  # whom root looks after; empty: this user
    files: dict[str, str] = field(default_factory=dict)  # path -> text
    table: str = ""  # our lines for the user's own crontab
    start: list[tuple[str, ...]] = field(default_factory=list)  # commands, after the files are there
    stop: list[tuple[str, ...]] = field(default_factory=list)  # before they go
    after: list[tuple[str, ...]] = field(default_factory=list)  # when they are gone
    notes: list[Step] = field(default_factory=list)
    stores: Stores | None = None  # for which it works; None: root's, by the name of the user

    def as_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "user": self.user or None,
            "files": self.files,
            "crontab": self.table,
            "commands": [list(words) for words in self.start],
            "notes": self.notes,
        }


@dataclass(frozen=True, slots=True)
class Installed:
    """What was installed, as it is remembered."""

    host: str
    user: str
    time: float
    files: dict[str, str]  # path -> hash of what was written
    directories: list[str]  # those that had to be made for them, the deepest first
    table: bool  # whether lines were put into the user's crontab
    stop: list[list[str]]
    after: list[list[str]]
    stores: str = ""  # the id of those for which it works; "": an earlier version wrote it down

    def states(self) -> dict[str, str]:
        """Each file: `as installed`, `changed` or `gone`."""
        found = {}
        for path, digest in self.files.items():
            try:
                found[path] = "as installed" if digest_of(read_regular(path)) == digest else "changed"
            except OSError:
                found[path] = "gone"
        return found


@dataclass(frozen=True, slots=True)
class Removed:
    """What was taken back, what is not ours any more, and what went wrong on the way."""

    files: list[str]
    left: list[str]
    remarks: list[str]


def rediscovered(plan: Installation, run: Runner) -> Installed | None:
    """What lies where this plan would put it and is ours by its mark, where nothing was written down.

    The record is in the data directory; a timer outlives its loss, and must be removable all the same.
    """
    found = {}
    others = files_of_others(plan.stores, plan.files) if plan.stores else []
    for path in plan.files:
        content = _content(path)
        if content is not None and _ours(content) and not others:
            found[path] = digest_of(content)
    there = bool(plan.table) and run(("crontab", "-l"), "")[0] == 0
    table = there and cron.has_lines(read_table(run), plan.stores)
    if not found and not table:
        return None
    stop, after = ([list(words) for words in commands] for commands in (plan.stop, plan.after))
    return Installed(plan.host, plan.user, 0.0, found, [], table, stop, after)


def installed(context: UserContext) -> Installed | None:
    """What `install` wrote down for the stores of this HOME, if it did."""
    stores = stores_of(context)
    for path in _records(context, stores):
        record = _read(path)
        if record is not None and _is_own(record, stores):
            return record
    return None


def _read(path: str) -> Installed | None:
    return read_document(
        path,
        lambda fields: Installed(**{name: fields[name] for name in fields if name != "version"}),
        None,
    )


def _records(context: UserContext, stores: Stores) -> tuple[str, str]:
    """Where the record may be: with several directories of settings, data may be one for all of them."""
    return file_of(context, f"installed-{stores.id}.json"), file_of(context, "installed.json")


def _record_to_write(context: UserContext, stores: Stores) -> str:
    of_these, usual = _records(context, stores)
    there = _read(usual)
    return usual if there is None or _is_own(there, stores) else of_these


def _forget(context: UserContext, stores: Stores, but: str = "") -> None:
    """The records of these stores go, but for one."""
    for path in _records(context, stores):
        record = _read(path)
        if path != but and record is not None and _is_own(record, stores):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _is_own(found: Installed, stores: Stores) -> bool:
    """A record may have come here with the directory that it lies in, copied from another HOME."""
    if found.user:
        return True
    return found.stores == stores.id if found.stores else not files_of_others(stores, found.files)


def refuse_taken(plan: Installation) -> None:
    """Raise FileTaken where a file that is not ours stands in the way."""
    for path in plan.files:
        try:
            content = _content(path)
        except OSError as error:
            raise not_written(error) from error
        if content is None:
            continue
        if not _ours(content):
            what = f"`{path}` exists, and safekept did not write it"
        elif plan.stores and path in files_of_others(plan.stores, plan.files):
            what = f"`{path}` is the schedule of another HOME of this user, or of other `XDG_*` directories"
        else:
            continue
        raise FileTaken(
            what,
            kept="It was left as it is; nothing was installed",
            next_steps=("Move it away, then run the command again",),
            path=path,
        )


def install(context: UserContext, plan: Installation, run: Runner, listener: Listener = silent) -> Installed:
    """Write the files, start what is to be started, remember it."""
    refuse_taken(plan)
    operation = new_id()
    work = ScheduleInstallFacts(host=plan.host, files=tuple(plan.files), user=plan.user)
    with recording(context, operation, work, listener):
        before = {path: _content(path) for path in plan.files}
        earlier = installed(context)
        made = _missing(plan.files) + (earlier.directories if earlier else [])
        table = read_table(run) if plan.table else ""
        stores = plan.stores or stores_of(context)
        try:
            for path, text in plan.files.items():
                os.makedirs(os.path.dirname(path), exist_ok=True)
                durable_write(path, text.encode("utf-8", "surrogateescape"), 0o644)
            if plan.table:
                write_table(run, cron.joined(table, plan.table, stores))
                _refuse_other_lines(plan.table, read_table(run), stores)
            for words in plan.start:
                expect(run, words)
        except (SafekeptError, OSError) as error:
            _put_back(before, made)
            if plan.table:
                write_table(run, table)
            if isinstance(error, OSError):
                raise not_written(error) from error
            raise
        done = Installed(
            plan.host,
            plan.user,
            time.time(),
            {path: digest_of(text.encode("utf-8", "surrogateescape")) for path, text in plan.files.items()},
            made,
            bool(plan.table),
            [list(words) for words in plan.stop],
            [list(words) for words in plan.after],
            stores.id,
        )
        if earlier is not None and (earlier.host != plan.host or set(earlier.files) - set(plan.files)):
            # Two hosts, or two names, would wake us twice, and only one of them would be known.
            _take_back(earlier, run, Removed([], [], []), stores)
        private_directory(os.path.dirname(file_of(context, "")))
        document = json.dumps({"version": 1, **asdict(done)}, indent=1).encode() + b"\n"
        path = _record_to_write(context, stores)
        durable_write(path, document)
        _forget(context, stores, path)
    record(context, work.line(operation, "done"), listener)
    return done


def _refuse_other_lines(wanted: str, table: str, stores: Stores) -> None:
    """What is said to be installed stands in the table as it was written, and nothing else of ours does."""
    if cron.own_lines(table, stores) != cron.own_lines(wanted, stores):
        raise HostRefused(
            "`crontab -` did not put the lines of the schedule in the place of the older ones",
            kept=TAKEN_BACK,
            next_steps=("See what is there: `crontab -l`", "Take the old lines out: `crontab -e`"),
        )


def remove(context: UserContext, found: Installed, run: Runner, listener: Listener = silent) -> Removed:
    """Take back what was installed: every file that is as it was written, our lines, and nothing else."""
    operation = new_id()
    result = Removed([], [], [])
    work = ScheduleRemoveFacts(host=found.host, files=tuple(found.files), user=found.user)
    with recording(context, operation, work, listener):
        stores = stores_of(context)
        _take_back(found, run, result, stores)
        _forget(context, stores)
    record(context, work.line(operation, "done"), listener)
    return result


def _take_back(found: Installed, run: Runner, result: Removed, stores: Stores) -> None:
    for words in found.stop:
        # An earlier version gave the timer of every HOME one name, and the one that runs may be another's.
        if found.stores or found.user or not another_runs(words, found.files, run):
            _note(result, attempt(run, words))
    if found.table:
        table = read_table(run)
        if cron.has_lines(table, stores):
            write_table(run, cron.without_lines(table, stores), _TABLE_LEFT)
            if cron.has_lines(read_table(run), stores):
                raise HostRefused(
                    "The lines of the schedule are still in your crontab",
                    kept=_TABLE_LEFT,
                    next_steps=("See what is there: `crontab -l`", "Take them out: `crontab -e`"),
                )
    for path, state in found.states().items():
        if state == "changed":
            result.left.append(path)
        elif state == "as installed":
            os.unlink(path)
            result.files.append(path)
    if not result.left:
        _remove_empty(found.directories)
    for words in found.after:
        _note(result, attempt(run, words))


def _note(result: Removed, remark: str) -> None:
    if remark:
        result.remarks.append(remark)


def _put_back(before: dict[str, bytes | None], made: list[str]) -> None:
    for path, content in before.items():
        with contextlib.suppress(OSError):
            if content is None:
                os.unlink(path)
            else:
                durable_write(path, content, 0o644)
    _remove_empty(made)


def _missing(paths: Iterable[str]) -> list[str]:
    """The directories that are not there yet, the deepest first."""
    found = set()
    for path in paths:
        directory = os.path.dirname(path)
        while not os.path.isdir(directory):
            found.add(directory)
            directory = os.path.dirname(directory)
    return sorted(found, key=len, reverse=True)


def _remove_empty(directories: Iterable[str]) -> None:
    for path in directories:
        with contextlib.suppress(OSError):  # something else is in it by now
            os.rmdir(path)


def _content(path: str) -> bytes | None:
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None


def _ours(content: bytes) -> bool:
    # A property list cannot start with a comment of ours; its label is ours alone.
    return MARK.encode() in content or b"<string>dev.safekept.schedule" in content


def digest_of(content: bytes) -> str:
    """By which a file that was installed is known."""
    return hashlib.sha256(content).hexdigest()


def file_of(context: UserContext, name: str) -> str:
    """Where the schedule of this user keeps a file of its own."""
    return os.path.join(context.places.data_directory, "schedule", name)
