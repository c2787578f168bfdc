"""Public keys in the user's keyring: found by any name gpg takes, and judged before anything is read.

A key that cannot encrypt, or no longer, is refused with the kind of key to make, not with gpg's
`unusable public key` after an hour of packing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field

from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from ...errors import NOTHING_WRITTEN
from ..errors import GpgKeyAmbiguous, GpgKeyCannotEncrypt, GpgKeyUnknown, bad_recipient, gpg_failed
from .program import Gpg

_LISTING = ("--with-colons", "--fixed-list-mode", "--with-fingerprint", "--with-fingerprint", "--list-keys")
_ONLY_SIGNS = "it can only sign"
_BRING = "Then bring the public key here again: `gpg --import FILE`"
_STEPS_NEW = (
    "Or make a new pair that can sign and encrypt: `gpg --quick-generate-key NAME default default never`",
    NextStep("backup keygen", before="Or use an age key, which always can:"),
)


@dataclass(slots=True)
class _Part:
    """A primary key or a subkey, as gpg lists it."""

    validity: str
    key_id: str
    expires: str
    abilities: str
    fingerprint: str = ""


@dataclass(slots=True)
class _Found:
    """One key with its subkeys."""

    parts: list[_Part]
    names: list[str] = field(default_factory=list)

    @property
    def primary(self) -> _Part:
        return self.parts[0]

    @property
    def name(self) -> str:
        return self.names[0] if self.names else ""


@dataclass(frozen=True, slots=True)
class GpgKey:
    """A public key that can encrypt."""

    fingerprint: str
    name: str
    key_ids: frozenset[str]  # of the parts that gpg may encrypt to

    def __str__(self) -> str:
        return f"gpg:{self.fingerprint}"


def find_key(wanted: str, environment: Mapping[str, str]) -> GpgKey:
    """The one key that is meant; a typed error where there is none, several, or none that can encrypt."""
    if not wanted.strip():
        raise bad_recipient("`gpg:`", "the name of the key is missing", "Write it as `gpg:FINGERPRINT`")
    found = _listed(wanted, environment)
    if not found:
        raise GpgKeyUnknown(
            f"There is no public key `{wanted}` in the keyring of gpg",
            kept=NOTHING_WRITTEN,
            next_steps=(
                "Import it from the machine that has it: `gpg --import FILE`",
                "See which keys there are: `gpg --list-keys`",
            ),
            key=wanted,
        )
    if len(found) > 1:
        listed = ", ".join(f"{key.primary.fingerprint} ({key.name})" for key in found)
        raise GpgKeyAmbiguous(
            f"`{wanted}` is the name of {len(found)} keys: {listed}",
            kept=NOTHING_WRITTEN,
            next_steps=("Say which one is meant by its fingerprint: `gpg:FINGERPRINT`",),
            key=wanted,
        )
    return _usable(wanted, found[0])


def _listed(wanted: str, environment: Mapping[str, str]) -> list[_Found]:
    run = Gpg(
        [*_LISTING, "--", wanted],
        environment,
        kept=NOTHING_WRITTEN,
    )
    try:
        lines = []
        while data := run.some():
            lines.append(data)
        whole = run.finish()
        found = _parsed(b"".join(lines).decode("utf-8", "replace"))
        if not whole and found:
            raise gpg_failed("list its keys", run.reason, NOTHING_WRITTEN)
        return found
    finally:
        run.close()


def _parsed(listing: str) -> list[_Found]:
    found: list[_Found] = []
    for line in listing.splitlines():
        words = line.split(":") + [""] * 20
        if words[0] in ("pub", "sub"):
            part = _Part(words[1], words[4], words[6], words[11])
            if words[0] == "pub":
                found.append(_Found([part]))
            elif found:
                found[-1].parts.append(part)
        elif words[0] == "fpr" and found:
            found[-1].parts[-1].fingerprint = words[9]
        elif words[0] == "uid" and found:
            found[-1].names.append(words[9])
    return found


def _usable(wanted: str, found: _Found) -> GpgKey:
    primary = found.primary
    whole = {"r": "it was revoked", "e": f"it expired on {_date(primary.expires)}", "i": "it is not valid"}
    if primary.validity in whole:
        raise _cannot(wanted, found, whole[primary.validity])
    if "D" in primary.abilities:
        raise _cannot(wanted, found, "it is disabled in this keyring")
    able = [part for part in found.parts if "e" in part.abilities]
    good = [part for part in able if part.validity not in ("r", "e", "i", "n")]
    if not able:
        raise _cannot(wanted, found, _ONLY_SIGNS)
    if not good:
        late = [part for part in able if part.validity == "e"]
        why = f"expired on {_date(late[-1].expires)}" if late else "was revoked"
        raise _cannot(wanted, found, f"the part of it that can encrypt {why}")
    return GpgKey(primary.fingerprint, found.name, frozenset(part.key_id for part in good))


def _cannot(wanted: str, found: _Found, why: str) -> GpgKeyCannotEncrypt:
    fingerprint = found.primary.fingerprint
    there = "Where its private half is, "
    steps = ["Ask its owner for the key that took its place"]
    if why.startswith("it expired"):
        steps = [there + f"let it live longer: `gpg --quick-set-expire {fingerprint} 2y`", _BRING]
    elif "expired" in why:
        steps = [there + f"let it live longer: `gpg --quick-set-expire {fingerprint} 2y '*'`", _BRING]
    elif why == _ONLY_SIGNS or why.startswith("the part"):
        steps = [there + f"add a part that can: `gpg --quick-add-key {fingerprint} cv25519 encr`", _BRING]
    elif "disabled" in why:
        steps = [f"Enable it: `gpg --edit-key {fingerprint}`, then type enable and quit"]
    return GpgKeyCannotEncrypt(
        f"Nothing can be sealed to the GPG key `{wanted}` ({fingerprint}): {why}",
        kept=NOTHING_WRITTEN,
        next_steps=(*steps, *_STEPS_NEW),
        key=wanted,
        fingerprint=fingerprint,
        reason=why,
    )


def _date(seconds: str) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(int(seconds))) if seconds.isdigit() else "an unknown day"
