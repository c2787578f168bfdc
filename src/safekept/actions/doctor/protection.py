"""Is everything kept, copied off this host, proven, and openable if this host dies? By what status knows."""

from __future__ import annotations

import os
from collections.abc import Iterator

from safekept.core.ages import moment, seconds_text
from safekept.core.spelling import shell_words

from ..status.vault_status import OPEN
from ..status.verdict import Reason
from ..status.verdict_levels import ALARM
from .databases import unverified_databases
from .finding import ADVICE, SERIOUS, Case, Finding

_DAY = 86400.0
#: A restore that was proven so long ago proves little.
DRILL_DAYS = 90
#: Reasons of the verdict that have a look of their own here.
_OWN = frozenset(
    {
        "database-damaged",
        "interrupted-landing",
        "interrupted-rollback",
        "clock",
        "no-recovery-key",
        "journal-unreadable",
    }
)


def look_at_protection(case: Case) -> Iterator[Finding]:
    yield from _verdict(case)
    for home, layout in case.status.unkept:
        yield Finding(
            "home-unkept",
            ADVICE,
            f"{home} is the home of an agent ({layout}), and nothing of it was ever kept",
            (f"it has the marks of {layout}", "no snapshot in the vault is of it"),
            (case.command("snapshot", home=home),),
            home=home,
        )
    yield from _drills(case)
    yield from _keys(case)
    yield from _copies(case)


def _verdict(case: Case) -> Iterator[Finding]:
    """What `status` counts against you, in the same words."""
    for reason in case.status.verdict.reasons:
        if reason.code not in _OWN:
            level = SERIOUS if reason.level == ALARM else ADVICE
            if reason.code in ("no-snapshot", "home-gone"):
                level = SERIOUS
            seen = _evidence(case, reason)
            steps = tuple(_verified(case, reason.home, step) for step in reason.next)
            yield Finding(reason.code, level, reason.text, seen, steps, home=reason.home)


def _verified(case: Case, home: str, step: str) -> str:
    """The same step, unless it would restore a database that nobody verified: that is proven first."""
    words = shell_words(step.strip("`")) if step.startswith("`safekept snapshot restore ") else []
    if len(words) < 4:
        return step
    snapshot, paths = words[3], [word for word in words[4:] if not word.startswith("-")]
    doubtful = unverified_databases(case, home, snapshot, paths)
    if not doubtful:
        return step
    names = ", ".join(doubtful)
    return f"{names} was not verified in {snapshot}; prove it before you restore it: " + case.command(
        "drill", snapshot, home=home
    )


def _evidence(case: Case, reason: Reason) -> tuple[str, ...]:
    """What the verdict saw, where its sentence does not say it."""
    code, name = reason.code, reason.home
    home = next((one for one in case.status.homes if one.home == name), None)
    if code.startswith("alarm-"):
        return tuple(
            f"seen at {moment(one.time)}"
            + (f"; snapshot {one.pinned[:8]} has it, pinned" if one.pinned else "")
            for one in case.status.alarms
            if one.text in reason.text and one.home == name
        )
    if home is None:
        return ()
    if code == "no-snapshot":
        return ("none in the vault is of it" if case.status.vault.state == OPEN else "there is no vault",)
    if code in ("stale", "incomplete", "quick-only", "home-gone") and home.last is not None:
        return (f"the last one is {home.last.short} of {moment(home.last.time)}",)
    return ()


def _drills(case: Case) -> Iterator[Finding]:
    if case.status.vault.state != OPEN:
        return  # what does not open cannot be drilled, and that it does not is said already
    for home in case.status.homes:
        if home.last is None or (home.drill is not None and not home.drill.ok):
            continue  # nothing to drill, or said already
        proof = home.proof
        if proof is not None and case.now - proof.started < DRILL_DAYS * _DAY:
            continue
        when = "never was" if proof is None else f"was last {seconds_text(case.now - proof.started)} ago"
        yield Finding(
            "not-proven",
            ADVICE,
            f"that {home.home} can be restored {when} proven by a drill",
            (
                "no receipt of a drill"
                if proof is None
                else f"the last receipt is of {moment(proof.started)}",
            ),
            (case.command("drill", home=home.home),),
            home=home.home,
        )


def _keys(case: Case) -> Iterator[Finding]:
    """A vault that only this machine can open dies with it, and so do its copies."""
    vault, copied = case.status.vault, bool(case.status.destinations)
    if vault.state != OPEN or not vault.key_file or vault.second_way or (vault.kit and not copied):
        return
    where = "on the same disk as the vault" if _same_disk(vault.key_file, vault.place) else "on this machine"
    kit = (
        f"a kit was written at {moment(vault.kit)}; nobody said that it is kept elsewhere"
        if vault.kit
        else "no kit was ever written"
    )
    say_so = ("When the kit is kept elsewhere, say so: `safekept push --acknowledge-kit`",)
    yield Finding(
        "key-only-here",
        SERIOUS if copied else ADVICE,
        f"the only key of the vault is {where}",
        (
            f"the key is in {vault.key_file}: without it, every snapshot and every copy is lost",
            "no passphrase opens the vault",
            kit,
        ),
        (
            "Add a passphrase that you know: `safekept vault key add --recovery`",
            *(
                say_so
                if vault.kit
                else ("Or write the page with the key, and keep it elsewhere: `safekept vault kit`",)
            ),
        ),
    )


def _same_disk(one: str, other: str) -> bool:
    try:
        return os.stat(one).st_dev == os.stat(other).st_dev
    except OSError:
        return False


def _copies(case: Case) -> Iterator[Finding]:
    status = case.status
    if status.destinations or status.vault.state != OPEN or not os.path.isdir(status.vault.place):
        return
    yield Finding(
        "no-copy-elsewhere",
        ADVICE,
        "every copy is on this machine: none would survive its loss",
        ("no destination is set up", f"the vault is in {status.vault.place}"),
        ("Copy the vault to a place off this host: `safekept push URL`",),
    )
