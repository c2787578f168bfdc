"""Every error of the vault: what happened, what was kept safe, what to do next.

SafekeptError
├── NoSuchVault        10  nothing there
├── VaultHalfMade       1  keys or data, but no config: an init was cut short, or the config was lost
├── VaultExists         1  an init where a vault is already
├── VaultLocked        11  another program works on it (may be tried again)
├── LockLost            1  our own lock ran out or was taken away: the work stopped in time
├── WrongKey           12  no key file opens with this passphrase or key
├── NoSuchKey           1  a key id that names none, or several
├── KeyInUse            1  removing the key that the vault was opened with
├── VaultDamaged        1  a file of the vault is missing, torn or changed
├── VaultReadOnly       1  version 1: read, never written
├── VaultUnsupported    1  a version or a key derivation that we do not know
├── VaultUnreachable    1  the storage itself failed (may be tried again)
├── NotProven           1  what was encoded did not decode to the same bytes: bad memory
├── NoSuchSnapshot      1  an id or number that names none
└── AmbiguousSnapshot   1  a prefix that names several
"""

from __future__ import annotations

from typing import Self

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.spelling import shell_word

UNTOUCHED = "Nothing was written to the vault"


class NoSuchVault(SafekeptError):
    code, exit_code = "no-such-vault", 10

    @classmethod
    def at(cls, place: str) -> Self:
        return cls(
            f"There is no vault at `{place}`",
            kept="Nothing was made or changed there",
            next_steps=(
                NextStep("vault init", before="Make one:"),
                "If it lies on a drive or share, see that it is mounted",
            ),
            place=place,
        )


class VaultHalfMade(SafekeptError):
    code = "vault-half-made"

    @classmethod
    def only_keys(cls, place: str) -> Self:
        return cls(
            f"The vault at `{place}` was not finished: it has key files but no `config`",
            kept="It holds no snapshots yet, so nothing is lost",
            next_steps=(NextStep("vault init", before="Finish it:"),),
            place=place,
        )

    @classmethod
    def pieces(cls, place: str) -> Self:
        """Packs and nothing that says what they are of: so a vault looks while it is being fetched."""
        return cls(
            f"`{place}` holds pieces of a vault, and is none: fetching it was cut off, or the rest is gone",
            kept="Nothing was made or changed there",
            next_steps=(
                NextStep("pull", ("PLACE",), before="If fetching it was cut off, go on:"),
                "Else put the pieces aside, then run the command again: "
                f"`mv {shell_word(place)} {shell_word(place + '.pieces')}`",
            ),
            place=place,
        )

    @classmethod
    def without_config(cls, place: str, found: str) -> Self:
        return cls(
            f"The vault at `{place}` has {found} but its `config` file is missing",
            kept="Nothing was changed; the stored data is still there",
            next_steps=(
                NextStep("pull", ("PLACE",), before="If fetching it was cut off, go on:"),
                "Bring the file `config` back from a copy of the vault",
                "Do not make a new vault in this place: it could not read what is stored here",
            ),
            place=place,
        )


class VaultExists(SafekeptError):
    code = "vault-exists"

    @classmethod
    def at(cls, place: str) -> Self:
        return cls(
            f"There is a vault at `{place}` already",
            kept="It was not touched",
            next_steps=(
                NextStep("snapshot list", before="Use it as it is:"),
                "Or choose another place for a new one",
            ),
            place=place,
        )


class VaultLocked(SafekeptError):
    code, exit_code, retry = "vault-locked", 11, True


class LockLost(SafekeptError):
    code, retry = "vault-lock-lost", True

    @classmethod
    def packs_gone(cls, place: str, count: int) -> Self:
        """Another process pruned what we counted on."""
        return cls(
            f"The vault at `{place}` lost {count:,} packs while this command counted on them",
            kept="No snapshot was written that needs them; the other snapshots are as they were",
            next_steps=(
                "Run the command again: what is missing is then stored again",
                NextStep("vault check", before="See what is damaged:"),
            ),
            place=place,
        )


class WrongKey(SafekeptError):
    code, exit_code = "wrong-key", 12


class NoSuchKey(SafekeptError):
    code = "no-such-vault-key"


class KeyInUse(SafekeptError):
    code = "vault-key-in-use"


class VaultDamaged(SafekeptError):
    code = "vault-damaged"

    @classmethod
    def file(cls, name: str, reason: str) -> Self:
        """One file of the vault that is not what it should be; `name` as it lies in the vault."""
        return cls(
            f"The file `{name}` of the vault is damaged: {reason}",
            kept="Nothing was changed; everything that does not need this file can still be restored",
            next_steps=(
                NextStep("vault check", ("--read-data",), before="See what it touches:"),
                f"If another copy of the vault exists, bring `{name}` back from there",
            ),
            file=name,
            reason=reason,
        )

    @classmethod
    def blob(cls, kind: str, blob: str, reason: str) -> Self:
        return cls(
            f"A piece of stored {kind} ({blob[:12]}) cannot be read: {reason}",
            kept="Nothing was changed; everything that does not need this piece can still be restored",
            next_steps=(
                NextStep(
                    "vault check", ("--read-data",), before="See which files of which snapshots need it:"
                ),
                NextStep(
                    "vault repair",
                    before="Keep what is sound:",
                    after=",",
                    then=NextStep("snapshot", before="then store the rest again:"),
                ),
            ),
            blob=blob,
            reason=reason,
        )


class VaultReadOnly(SafekeptError):
    code = "vault-read-only"

    @classmethod
    def version_one(cls, place: str) -> Self:
        return cls(
            f"The vault at `{place}` has restic's format version 1, which safekept reads but never writes",
            kept=UNTOUCHED,
            next_steps=("Bring it to version 2 with restic itself: `restic migrate upgrade_repo_v2`",),
            place=place,
        )


class VaultUnsupported(SafekeptError):
    code = "vault-unsupported"


class VaultUnreachable(SafekeptError):
    code, retry = "vault-unreachable", True


class NotProven(SafekeptError):
    code = "vault-write-not-proven"

    @classmethod
    def of(cls, thing: str) -> Self:
        return cls(
            f"A {thing} did not decode to the bytes it was made of; it was not stored",
            kept="What was stored before is whole; no snapshot refers to the failed piece",
            next_steps=("Test the memory of this machine, then run the command again",),
        )


class NoSuchSnapshot(SafekeptError):
    code = "no-such-snapshot"


class AmbiguousSnapshot(SafekeptError):
    code = "ambiguous-snapshot"
