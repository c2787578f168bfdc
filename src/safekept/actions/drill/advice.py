"""What counts as damage, and what to do about the rows that failed: commands that run as printed."""

from __future__ import annotations

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep, Step

from .checks.census import CENSUS
from .checks.databases import DATABASES, FULL_TEXT, KEYS, TABLES
from .checks.essentials import MEMORIES, PERSONA, SETTINGS
from .checks.files import FILES, METADATA, SECRETS
from .checks.restored import Findings
from .receipts import ARCHIVE, DESTINATION, SNAPSHOT, Receipt

STORE, RESTORE = "store", "restore"

#: Rows about the store, in which the bytes are not what was stored.
_OF_THE_STORE = frozenset({STORE, RESTORE, FILES, METADATA})
#: Rows about what was stored, which may have been bad from the start.
_OF_THE_CONTENT = (DATABASES, KEYS, FULL_TEXT, TABLES, PERSONA, MEMORIES, SETTINGS)


def advice(receipt: Receipt, findings: Findings, older: str = "") -> tuple[Step, ...]:
    """Next steps, the most useful first; none where nothing failed. `older`: a snapshot before this one."""
    failed = {row.check for row in receipt.failed}
    if not failed:
        return ()
    steps: list[Step] = []
    if failed & _OF_THE_STORE:
        steps += _FOR_THE_STORE[receipt.subject]
    for check in _OF_THE_CONTENT:
        found = findings.problems.get(check)
        if check in failed and found and receipt.subject == SNAPSHOT:
            path = found[0][0].partition(": ")[0]
            steps.append(NextStep("history", (path,), before="Look for an older version of it:"))
            break
    if CENSUS in failed and receipt.subject == SNAPSHOT:
        steps.append(NextStep("snapshot list", before="See what was counted in every one of them:"))
    if SECRETS in failed:
        steps.append(NextStep("snapshot", before="Close them to others in the home (`chmod 600`), then:"))
    if receipt.subject == SNAPSHOT and older:
        steps.append(NextStep("drill", (older,), before="Prove the one before it:"))
    return tuple(dict.fromkeys(steps)) or (NextStep("backup", before="Make a new one and drill that:"),)


_FOR_THE_STORE: dict[str, tuple[Step, ...]] = {
    SNAPSHOT: (
        NextStep("vault check", ("--read-data",), before="See what else is damaged:"),
        NextStep(
            "vault repair",
            before="Keep what is sound:",
            after=",",
            then=NextStep("snapshot", before="then store the rest again:"),
        ),
    ),
    ARCHIVE: ("Copy the archive again from where it came from, and drill that copy",),
    DESTINATION: (NextStep("drill", before="Prove the vault on this machine, then send it again:"),),
}


def is_damage(error: SafekeptError) -> bool:
    """Whether an error is about what is stored, and not about the way to it."""
    # A key that does not fit is nobody's damage; a key file that cannot be read is.
    return error.code in _DAMAGE or (error.code == "wrong-key" and bool(error.facts.get("unreadable")))


_DAMAGE = frozenset(
    {
        "vault-damaged",
        "vault-half-made",
        "archive-altered",
        "archive-damaged",
        "archive-unsafe",
        "archive-unknown",
        "archive-unsupported",
        "not-a-home",
    }
)
