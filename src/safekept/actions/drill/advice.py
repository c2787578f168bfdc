"""What counts as damage, and what to do about the rows that failed: commands that run as printed."""

from __future__ import annotations

from safekept.core.errors import SafekeptError
from safekept.core.spelling import shell_word

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


def advice(receipt: Receipt, findings: Findings, older: str = "") -> tuple[str, ...]:
    """Next steps, the most useful first; none where nothing failed. `older`: a snapshot before this one."""
    failed = {row.check for row in receipt.failed}
    if not failed:
        return ()
    steps: list[str] = []
    if failed & _OF_THE_STORE:
        steps += _FOR_THE_STORE[receipt.subject]
    for check in _OF_THE_CONTENT:
        found = findings.problems.get(check)
        if check in failed and found and receipt.subject == SNAPSHOT:
            path = found[0][0].partition(": ")[0]
            steps.append(f"Look for an older version of it: `safekept history {shell_word(path)}`")
            break
    if CENSUS in failed and receipt.subject == SNAPSHOT:
        steps.append("See what was counted in every one of them: `safekept snapshot list`")
    if SECRETS in failed:
        steps.append("Close them to others in the home (`chmod 600`), then: `safekept snapshot`")
    if receipt.subject == SNAPSHOT and older:
        steps.append(f"Prove the one before it: `safekept drill {older}`")
    return tuple(dict.fromkeys(steps)) or ("Make a new one and drill that: `safekept backup`",)


_FOR_THE_STORE = {
    SNAPSHOT: (
        "See what else is damaged: `safekept vault check --read-data`",
        "Keep what is sound: `safekept vault repair`, then store the rest again: `safekept snapshot`",
    ),
    ARCHIVE: ("Copy the archive again from where it came from, and drill that copy",),
    DESTINATION: ("Prove the vault on this machine, then send it again: `safekept drill`",),
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
