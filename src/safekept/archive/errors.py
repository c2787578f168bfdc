"""What can go wrong with an archive, each with its own code.

Reading never changes anything, so `kept` of every reading error says so; an archive that could not be
written leaves nothing behind, neither under its final name nor under a temporary one.
"""

from __future__ import annotations

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

NOTHING_CHANGED = "Nothing was changed"
NOTHING_WRITTEN = "No archive was written, and no part of one was left behind"


class ArchiveNotFound(SafekeptError):
    code = "archive-not-found"


class ArchiveUnreadable(SafekeptError):
    code = "archive-unreadable"


class ArchiveUnknown(SafekeptError):
    code = "archive-unknown"


class ArchiveDamaged(SafekeptError):
    code = "archive-damaged"


class ArchiveUnsafe(SafekeptError):
    code = "archive-unsafe"


class ArchiveTooLarge(SafekeptError):
    code = "archive-too-large"


class ArchiveLocked(SafekeptError):
    code = "archive-has-password"


class ArchiveUnsupported(SafekeptError):
    code = "archive-unsupported"


class OutputNotWritable(SafekeptError):
    code = "output-not-writable"


class ArchiveNotProven(SafekeptError):
    code = "archive-not-proven"


def damaged(path: str, reason: str, member: str = "") -> ArchiveDamaged:
    """The archive is not what was written: cut short, altered, or torn."""
    where = f": `{member}`" if member else ""
    return ArchiveDamaged(
        f"`{path}` is damaged{where}: {reason}",
        kept=NOTHING_CHANGED,
        next_steps=(
            "Copy the archive again from where it came from, and compare the sizes",
            "Use an older archive, if there is one",
        ),
        path=path,
        reason=reason,
        member=member,
    )


def unsafe(path: str, member: str, reason: str) -> ArchiveUnsafe:
    """A member that no honest archive of a home holds."""
    return ArchiveUnsafe(
        f"`{path}` holds `{member}`, {reason}",
        kept=NOTHING_CHANGED,
        next_steps=(
            "Do not use this archive unless you know who made it",
            NextStep("backup", before="Make a new one from the original home with"),
        ),
        path=path,
        member=member,
        reason=reason,
    )


def too_large(path: str, reason: str) -> ArchiveTooLarge:
    """More than the limits allow: a bomb, or not enough room for it here."""
    return ArchiveTooLarge(
        f"`{path}` {reason}",
        kept=NOTHING_CHANGED,
        next_steps=(
            "Do not use it unless you know who made it",
            NextStep("import", ("FILE", "--no-limits"), before="If you do, and there is room for it:"),
        ),
        path=path,
        reason=reason,
    )


def has_password(path: str, member: str) -> ArchiveLocked:
    return ArchiveLocked(
        f"`{path}` is protected by a password: `{member}` is encrypted",
        kept=NOTHING_CHANGED,
        next_steps=(
            "Unpack it with the tool that made it, pack it again without a password, then import that",
        ),
        path=path,
        member=member,
    )


def unsupported(path: str, reason: str) -> ArchiveUnsupported:
    return ArchiveUnsupported(
        f"`{path}` cannot be read here: {reason}",
        kept=NOTHING_CHANGED,
        next_steps=("Unpack it with the tool that made it, pack it again as zip or tar, and import that",),
        path=path,
        reason=reason,
    )
