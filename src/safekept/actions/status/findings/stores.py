"""What is wrong with the vault, its keys, its copies elsewhere and the journal; and open alarms."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from safekept.core.ages import iso_time, seconds_text
from safekept.core.errors import clause
from safekept.core.finding import MEANT, NOT_PROTECTED, NOTE, PARTLY, THIS_MACHINE, Finding
from safekept.core.next_step import NextStep, Step, read_step
from safekept.core.objects.address import is_address
from safekept.core.spelling import shell_word

from ...alarms.alarms import LOSS, Alarm
from ..destination_status import DestinationStatus
from ..home_status import HomeStatus
from ..vault_status import NONE, OPEN, SHUT, UNOPENED, VaultStatus

_HOUR = 3600.0
#: A week: a disk that is plugged in on Sundays is a good place, too.
PUSH_STALE_HOURS = 7 * 24.0


def of_alarms(alarms: Iterable[Alarm], now: float) -> Iterator[Finding]:
    for alarm in alarms:
        # Of a loss they are commands; of a drill they are sentences, with commands in them.
        back = tuple(read_step(f"`{step}`" if alarm.kind == LOSS else step) for step in alarm.restore)
        back = back or _done_now(alarm)
        done = MEANT if alarm.kind == LOSS else "Once you have seen to it:"
        over = NextStep("status", ("--acknowledge", alarm.id), before=done)
        text = f"lost in {alarm.home}: {alarm.text}" if alarm.kind == LOSS and alarm.home else alarm.text
        kept = f"; snapshot {alarm.pinned[:8]} has it, pinned" if alarm.pinned else ""
        seen = (f"{seconds_text(max(0.0, now - alarm.time))} ago{kept}",)
        yield Finding(f"alarm-{alarm.kind}", PARTLY, text, seen, (*back, over), home=alarm.home, alarm=True)


def _done_now(alarm: Alarm) -> tuple[Step, ...]:
    """What a schedule could not do in time, done by hand: that ends the alarm."""
    kind, _, subject = alarm.about.partition(":")
    if kind == "push" and subject:
        return (NextStep("push", (subject,), before="Do it now:"),)
    if kind == "snapshot" and subject:
        return (NextStep("snapshot", ("--home", subject), before="Do it now:"),)
    return ()


def of_journal(problem: str, path: str) -> Iterator[Finding]:
    """Alarms are lines of the journal: where it cannot be read, there may be some."""
    if problem:
        text = f"the journal cannot be read ({problem}): whether anything was lost is not known"
        aside = f"mv {shell_word(path)} {shell_word(path + '.unreadable')}"
        fix = (
            "See that it is a file of yours that can be read",
            f"Or put it aside; a new one begins: `{aside}`",
        )
        yield Finding("journal-unreadable", PARTLY, text, (path,), fix)


def of_lost_vault(vault: VaultStatus, copies: Iterable[DestinationStatus]) -> Iterator[Finding]:
    """No vault here, and a copy of one elsewhere: it was here, or belongs to the machine before this one."""
    for one in copies:
        if vault.absent and one.holds:
            count = "1 snapshot" if one.holds == 1 else f"{one.holds:,} snapshots"
            fix: tuple[Step, ...] = (
                NextStep("pull", (one.name,), before="Bring the vault back:"),
                NextStep("rebuild", (one.name,), before="Or the vault and the home, on a new machine:"),
            )
            if vault.state != NONE:  # remembered: it may have moved, or its disk may be away
                fix += ("If it lies on a drive or share that is away, mount that instead",)
            text = f"there is no vault here any more; {one.name} holds a copy with {count}"
            yield Finding(
                "vault-lost", NOT_PROTECTED, text, (f"{vault.place} is not there",), fix, alarm=True
            )


def of_vault(vault: VaultStatus, copies: Sequence[DestinationStatus]) -> Iterator[Finding]:
    lost = vault.absent and any(one.holds for one in copies)  # said already, with the way back
    if vault.state == SHUT and vault.error and not lost:
        text = re.sub("^The ", "the ", str(vault.error.get("what")))  # it follows a colon
        yield Finding("vault-shut", NOT_PROTECTED, text, (), vault.advice, alarm=True)
    if vault.damaged:
        count = len(vault.damaged)
        text = f"{count:,} snapshot {'file' if count == 1 else 'files'} in the vault cannot be read"
        seen = tuple(f"{name[:8]}: {reason}" for name, reason in vault.damaged.items())
        yield Finding("vault-damaged", PARTLY, text, seen[:3], tuple(_put_aside(vault)), alarm=True)
    elif vault.check is not None and not vault.check.sound:
        text = "the last check found damage in the vault"
        yield Finding("vault-damaged", PARTLY, text, (), (NextStep("vault repair"),), alarm=True)
    if vault.state in (OPEN, UNOPENED):
        yield from _of_key(vault, any(one.away for one in copies) or vault.off_host)
        yield from _of_kit(vault)
        yield from _of_escrow(vault)


def _put_aside(vault: VaultStatus) -> Iterator[Step]:
    """A file that says which snapshot it is cannot be made again; everybody else is well without it."""
    yield "If another copy of the vault exists, bring the file back from there"
    if not is_address(vault.place):
        from safekept.vault.storage import LocalStorage

        closed = LocalStorage(vault.place).belt.state == "on"
        if closed:
            yield NextStep("vault open", before="Else let yourself write there:")
        for name in vault.damaged:
            old, new = os.path.join(vault.place, "snapshots", name), f"{vault.place}.damaged-{name[:8]}"
            before = "Put it aside" if closed else "Else put it aside"
            yield f"{before}, and the others are well: `mv {shell_word(old)} {shell_word(new)}`"
        if closed:
            yield NextStep("vault close", before="Close it again:")
    yield NextStep("vault check", before="See what it touches:")


def _of_key(vault: VaultStatus, copied: bool) -> Iterator[Finding]:
    """A vault that only this machine can open dies with it, and so do its copies."""
    if not vault.keys or vault.recovery_access or not (vault.key_file or copied):
        return
    disk = "on the same disk as the vault" if _same_disk(vault.key_file, vault.place) else "on this machine"
    kit = f"a kit was written at {iso_time(vault.kit)}" if vault.kit else "no kit was ever written"
    stored = NextStep("vault kit", ("--stored",), before="When the kit is stored elsewhere, say so:")
    write = NextStep("vault kit", before="Or write the page with the key, and keep it elsewhere:")
    text = f"the only key of the vault is {disk}"
    if copied:
        text += ": without it the copies cannot be opened"
    yield Finding(
        "key-only-here",
        NOT_PROTECTED if copied else PARTLY,
        text,
        (
            f"the key is in {vault.key_file or 'the memory of one person'}",
            "no other passphrase opens it",
            kit,
        ),
        (
            NextStep("vault key add", ("--recovery",), before="Add a passphrase that you know:"),
            stored if vault.kit and not vault.kits.gone else write,
        ),
        alarm=copied,
    )


def _of_kit(vault: VaultStatus) -> Iterator[Finding]:
    """After the loss of the machine a person follows the kit: what it does not name is not looked at."""
    kits = vault.kits
    if kits.gone and vault.kit > kits.stored:
        again = NextStep("vault kit", before="Write it again, and keep it elsewhere:")
        text = f"the kit that was written at {iso_time(vault.kit)} is gone from where it was put"
        stored = NextStep("vault kit", ("--stored",), before="Or, when it is stored elsewhere, say so:")
        yield Finding("kit-gone", NOTE, text, (), (again, stored))
    text = kits.outdated or kits.beyond
    if not text:
        return
    fix = NextStep("vault kit", before="Write it again:")
    if kits.here_current:
        newer = " and ".join(kits.files)
        fix = NextStep(
            "vault kit", ("--stored",), before=f"Store {newer} instead of the old one, then say so:"
        )
    yield Finding("kit-outdated", THIS_MACHINE if kits.outdated else NOTE, text, (), (fix,))


def _of_escrow(vault: VaultStatus) -> Iterator[Finding]:
    """Those who look after this machine count on the kit beside the copies."""
    if vault.escrow:
        level = NOTE if vault.recovery_access else THIS_MACHINE
        yield Finding("escrow-stale", level, vault.escrow, (), (NextStep("push", before="Send it:"),))


def _same_disk(one: str, other: str) -> bool:
    try:
        return os.stat(one).st_dev == os.stat(other).st_dev
    except OSError:
        return False


def of_destinations(
    copies: Sequence[DestinationStatus], vault: VaultStatus, stale_hours: float, now: float, unsaved: str = ""
) -> Iterator[Finding]:
    """Without a copy elsewhere the loss of the machine is the loss of everything."""
    for one in copies:
        push = (NextStep("push", (one.name,)),)
        level = PARTLY
        if one.last and stale_hours and now - one.last > stale_hours * _HOUR:
            text = f"the copy in {one.name} is {seconds_text(now - one.last)} old"
            yield Finding("push-stale", level, text, (), push)
        elif not one.last:
            why = f": {clause(one.failure.what)}" if one.failure else ""
            yield Finding("never-pushed", level, f"nothing is in {one.name} yet{why}", (), push)
        elif one.failure:
            text = f"the last push to {one.name} failed: {clause(one.failure.what)}"
            if one.failure.state == "interrupted":
                text = f"the last push to {one.name} was interrupted; the next one goes on with it"
            yield Finding("push-failed", NOTE, text, (), push)
    if any(one.away for one in copies) or vault.off_host or vault.state not in (OPEN, UNOPENED):
        return
    text, seen = "every copy is on this machine: none would survive its loss", "no destination is set up"
    fix = NextStep("destinations add", ("PLACE",), before="Name a place off this machine, then push:")
    if copies:
        reasons = tuple(f"{one.name} {one.here}" for one in copies)
        # A directory is where it is; of a server only its name says so.
        tunnels = tuple(
            f"If {one.name} is another machine after all (a tunnel leads there), add "
            "`elsewhere = true` to its table in the settings"
            for one in copies
            if not one.url.startswith("file:")
        )
        yield Finding("no-copy-elsewhere", THIS_MACHINE, text, reasons, (fix, *tunnels[:1]))
        return
    if unsaved:
        text, seen = f"nothing goes to {unsaved} again: it is not saved", f"one push went to {unsaved}"
        fix = NextStep("destinations add", (unsaved,), before="Save it, so that every push goes there:")
    seen_too = f"the vault is in {vault.place}"
    yield Finding("no-copy-elsewhere", THIS_MACHINE, text, (seen, seen_too), (fix,))


def of_homes_elsewhere(homes: Sequence[HomeStatus], copies: Sequence[DestinationStatus]) -> Iterator[Finding]:
    """A copy elsewhere that has nothing of a home does not bring it back."""
    away = [one for one in copies if one.away and one.last]
    for home in homes if away else ():
        if not home.exists or home.whole is None:
            continue
        if not any(one.newest_of(home.home, home.whole.time) for one in away):
            text = f"nothing of {home.home} is in {', '.join(one.name for one in away)} yet"
            push = (NextStep("push", (away[0].name,)),)
            yield Finding("never-pushed", THIS_MACHINE, text, (), push, home=home.home)
