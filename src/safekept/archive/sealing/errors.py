"""What can go wrong with seals, keys and passphrases. No text here ever holds a secret.

What was given as a recipient or identity is named by its place or its file, not repeated: people paste
the wrong half of a pair, or a passphrase, and errors go into the journal.
"""

from __future__ import annotations

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ..errors import NOTHING_CHANGED, NOTHING_WRITTEN

KINDS_OF_RECIPIENT = (
    "Give an age recipient (`age1…`), an SSH public key or its `.pub` file (ssh-ed25519, ssh-rsa), a file "
    "with one recipient per line, `gpg:KEY`, `passphrase` or `gpg-symmetric`"
)


class BadRecipient(SafekeptError):
    code, exit_code = "bad-recipient", 2


class RecipientsMixed(SafekeptError):
    code, exit_code = "recipients-mixed", 2


class RecipientsUnreadable(SafekeptError):
    code, exit_code = "recipients-unreadable", 2


class GpgMissing(SafekeptError):
    code = "gpg-missing"


class GpgFailed(SafekeptError):
    code = "gpg-failed"


class GpgKeyUnknown(SafekeptError):
    code = "gpg-key-unknown"


class GpgKeyAmbiguous(SafekeptError):
    code, exit_code = "gpg-key-ambiguous", 2


class GpgKeyCannotEncrypt(SafekeptError):
    code = "gpg-key-cannot-encrypt"


class IdentityNeeded(SafekeptError):
    code, exit_code = "identity-needed", 12


class IdentityDoesNotFit(SafekeptError):
    code, exit_code = "identity-does-not-fit", 12


class BadIdentity(SafekeptError):
    code, exit_code = "bad-identity", 12


class WrongPassphrase(SafekeptError):
    code, exit_code = "wrong-passphrase", 12


def bad_recipient(where: str, why: str, *steps: str) -> BadRecipient:
    """`where` says which one is meant without repeating it."""
    return BadRecipient(
        f"{where} is nothing that an archive can be sealed to: {why}",
        kept=NOTHING_WRITTEN,
        next_steps=steps or (KINDS_OF_RECIPIENT,),
        reason=why,
    )


def gpg_missing(kept: str) -> GpgMissing:
    return GpgMissing(
        "The program `gpg` is needed for this and is not on the PATH",
        kept=kept,
        next_steps=(
            "Install GnuPG (the package is called gnupg or gnupg2), then run the command again",
            NextStep("backup keygen", before="age seals need no program at all:"),
        ),
    )


def gpg_failed(doing: str, printed: str, kept: str) -> GpgFailed:
    return GpgFailed(
        f"gpg did not {doing}: {printed}",
        kept=kept,
        next_steps=("Try the same with `gpg` itself; what it says there is the cause",),
        reason=printed,
    )


def bad_identity(path: str, why: str, *steps: str) -> BadIdentity:
    return BadIdentity(
        f"`{path}` cannot open anything: {why}",
        kept=NOTHING_CHANGED,
        next_steps=steps
        or (
            "Name the file that holds the private half: an age identity (`AGE-SECRET-KEY-1…`), "
            "or an SSH private key",
        ),
        identity=path,
        reason=why,
    )


def wrong_passphrase(path: str) -> WrongPassphrase:
    return WrongPassphrase(
        f"The passphrase does not open `{path}`",
        kept=NOTHING_CHANGED,
        next_steps=("Run the command again with the right one; mind the keyboard layout and capitals",),
        path=path,
    )
