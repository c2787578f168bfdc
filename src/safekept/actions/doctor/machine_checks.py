"""What is around safekept: the clock, the disk, the programs that the settings need."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
from collections.abc import Iterator

from safekept.core.ages import iso_time, seconds_text
from safekept.core.errors import SafekeptError
from safekept.core.finding import NOTE, PARTLY, Finding
from safekept.core.next_step import NextStep
from safekept.core.objects import program_for
from safekept.core.trash import GRACE, room_to_keep
from safekept.home.scan import amount
from safekept.vault.snapshots import list_snapshots, public_id
from safekept.vault.tags import forgotten_at

from ..alarms.notify import INSTALL_MAILER
from ..projects.project import checkpoint_directory
from ..status.vault_status import OPEN
from ..vault.opening import open_vault
from .case import Case

_DAY = 86400.0
#: A clock may be wrong by so much without misleading a person.
_SKEW = 300.0
#: Forgotten snapshots that were not pruned for so long after their grace.
_UNPRUNED = 30 * _DAY


def look_at_clock(case: Case) -> Iterator[Finding]:
    future, evidence = [], []
    if case.status.vault.state == OPEN:
        with contextlib.suppress(SafekeptError, OSError), open_vault(case.context) as repository:
            for one in list_snapshots(repository)[0]:
                if one.time_ns / 1e9 > case.now + _SKEW:
                    future.append(one)
    for one in future[:3]:
        evidence.append(f"snapshot {public_id(one)[:8]} is dated {iso_time(one.time_ns / 1e9)}")
    if len(future) > 3:
        evidence.append(f"and {len(future) - 3:,} more snapshots")
    evidence += _journal_times(case)
    key = f"clock:{hashlib.sha256(''.join(evidence).encode()).hexdigest()[:8]}"
    over = NextStep("status", ("--acknowledge", key), before="Once it is right, say so:")
    counted = [one for one in case.status.verdict.reasons if one.code == "clock"]
    if evidence or counted:
        yield Finding(
            "clock",
            counted[0].level if counted else NOTE,
            "the clock of this machine is or was wrong",
            (*evidence, f"it says {iso_time(case.now)} now"),
            (
                "Set the clock, or let it be set: `timedatectl set-ntp true`",
                *([step for one in counted for step in one.fix] or [over]),
            ),
            declinable="" if counted else key,
        )


def _journal_times(case: Case) -> list[str]:
    """Lines of the journal that are dated before the line above them, or after now."""
    back, last, ahead = 0, 0.0, 0
    worst = (0.0, 0.0)
    try:
        for entry in case.context.journal.read():
            if last - entry.time > _SKEW:
                back += 1
                worst = max(worst, (last - entry.time, entry.time))
            ahead += entry.time > case.now + _SKEW
            last = entry.time
    except OSError as error:
        case.remarks.append(f"the journal could not be read: {error.strerror or error}")
    found = []
    if back:
        times = "once" if back == 1 else f"{back:,} times"
        found.append(f"the journal goes back in time {times}, by up to {seconds_text(worst[0])}")
    if ahead:
        lines = "1 line of the journal is" if ahead == 1 else f"{ahead:,} lines of the journal are"
        found.append(f"{lines} dated in the future")
    return found


def look_at_room(case: Case) -> Iterator[Finding]:
    """A disk that is nearly full, and room that only waits to be given back."""
    seen = set()
    places = [case.context.places.data_directory, case.context.places.vault]
    for place in (*places, *(home.home for home in case.status.homes)):
        with contextlib.suppress(OSError):
            device = os.stat(place).st_dev
            if device in seen:
                continue
            seen.add(device)
            if not room_to_keep(place):
                free = shutil.disk_usage(place).free
                yield Finding(
                    "disk-nearly-full",
                    PARTLY,
                    f"the disk of {place} is nearly full",
                    (f"{amount(free)} are free", "below that, nothing that was dropped is kept for a while"),
                    (
                        "Make room on that disk",
                        NextStep("vault prune", before="What safekept itself can give back:"),
                        NextStep("checkpoint prune", before="and"),
                    ),
                    alarm=True,
                )
    yield from _unpruned(case)


def _unpruned(case: Case) -> Iterator[Finding]:
    if case.status.vault.state != OPEN or not case.status.vault.forgotten:
        return
    with contextlib.suppress(SafekeptError, OSError), open_vault(case.context) as repository:
        times = [forgotten_at(one) for one in list_snapshots(repository)[0]]
        old = [time for time in times if time is not None and case.now - time / 1e9 > GRACE + _UNPRUNED]
        if old:
            yield Finding(
                "vault-unpruned",
                NOTE,
                f"{len(old):,} forgotten snapshots wait to be deleted from the vault",
                (f"the first was forgotten at {iso_time(min(old) / 1e9)}",),
                (
                    NextStep("vault prune", before="Delete them:"),
                    NextStep("vault prune", ("--dry-run",), before="See first what that would free:"),
                ),
            )


def look_at_programs(case: Case) -> Iterator[Finding]:
    """Programs that are used where settings or stores need them; looked for where safekept would look."""
    store = os.path.join(checkpoint_directory(case.context), "store")
    needs = {"git": "to pack checkpoints and keep their store small"} if os.path.isdir(store) else {}
    for recipient in case.request.recipients:
        if recipient.startswith(("gpg:", "gpg-symmetric")):
            needs["gpg"] = "to seal archives to a GnuPG key, as `backup.seal` says"
    for destination in case.status.destinations:
        if program := program_for(destination.url):
            needs.setdefault(program, f"to reach the destination {destination.name}")
    words = _words(case.request.passphrase_command)
    if words:
        needs[words[0]] = "to open the vault, as `vault.passphrase_command` says"
    yield from _mailer(case)
    for program, why in needs.items():
        needed = why.startswith("to open")
        if shutil.which(program, path=case.context.caller.search_path or None) is None:
            yield Finding(
                "program-missing",
                PARTLY if needed else NOTE,
                f"{program} is not installed; it is needed {why}",
                (f"{program} is not in the PATH",),
                (f"Install {program} with the packages of this system",),
                alarm=needed,
            )


def _mailer(case: Case) -> Iterator[Finding]:
    targets = case.context.choices.notify
    if targets is not None and (program := targets.missing_mailer):
        yield Finding(
            "program-missing",
            NOTE,
            f"{program} is not installed; it is needed to send mail, as `notify.email` says",
            (f"nothing that can be run is at {program}", "who is to get mail hears of nothing"),
            (INSTALL_MAILER, NextStep("notify test", before="Then see that it arrives:")),
        )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def look_at_journal(case: Case) -> Iterator[Finding]:
    journal = case.status.journal
    if journal.unreadable and not journal.problem:
        one = journal.unreadable == 1
        key = f"journal-torn:{journal.unreadable}"
        count, verb = ("1 line", "is") if one else (f"{journal.unreadable:,} lines", "are")
        yield Finding(
            "journal-torn",
            NOTE,
            f"{count} of the journal cannot be read and {verb} passed over",
            (journal.path,),
            (
                "Nothing has to be done; `log` and `undo` know less of what those lines told",
                NextStep("status", ("--acknowledge", key), before="Say no more of it:"),
            ),
            declinable=key,
        )
