"""Seals: an archive that only the holder of another key can read, in formats that others maintain.

`Seal` is what an archive is written through, `open_sealed` the way back. Both work on a stream: nothing in
the clear touches a disk, memory does not grow with the archive, and no byte is handed on that was not
authenticated. Public names: `Seal`, `make_seal`, `sealed_kind`, `open_sealed`, `Identity`, `NO_IDENTITY`,
`SUFFIXES`, `unsealed_name`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from safekept.core.archive_names import SEALS
from safekept.core.records import dataclass

from ..container.handle import Handle, open_handle
from ..container.limits import ReadLimits
from ..container.output import Target
from ..errors import NOTHING_CHANGED, NOTHING_WRITTEN
from .age.keys import AgeRecipient, parse_recipient
from .age.ssh_keys import SshRecipient, parse_public
from .errors import RecipientsMixed, RecipientsUnreadable, bad_recipient
from .identity import NO_IDENTITY, Ask, Identity

# Whom an archive is sealed to, as people write it: keys, files of keys, `gpg:KEY`, or a passphrase.

PASSPHRASE, GPG_SYMMETRIC, GPG = "passphrase", "gpg-symmetric", "gpg:"
_SSH = re.compile(r"(ssh|ecdsa|sk)-[a-z0-9@.-]+ ")
_LIMIT = 1 << 20
_PUBLIC_HALF = "Give the public half: the line that begins with `age1`, or the `.pub` file"


@dataclass(slots=True)
class Recipients:
    """What was named, sorted by kind; exactly one kind."""

    keys: list[AgeRecipient | SshRecipient] = field(default_factory=list)
    gpg: list[str] = field(default_factory=list)
    passphrase: str = ""  # "", "passphrase" or "gpg-symmetric"

    def add(self, other: AgeRecipient | SshRecipient | str) -> None:
        if not isinstance(other, str):
            if other not in self.keys:
                self.keys.append(other)
        elif other in (PASSPHRASE, GPG_SYMMETRIC):
            self._refuse_mixed(self.passphrase not in ("", other))
            self.passphrase = other
        elif other not in self.gpg:
            self.gpg.append(other)

    def check(self) -> None:
        self._refuse_mixed(sum(map(bool, (self.keys, self.gpg, self.passphrase))) > 1)

    def _refuse_mixed(self, mixed: bool) -> None:
        if mixed:
            raise RecipientsMixed(
                "An archive is sealed in one way: to age and SSH keys, to GPG keys, or with one passphrase",
                kept=NOTHING_WRITTEN,
                next_steps=(
                    "Leave out all but one kind; several keys of one kind can all open it",
                    "Or make two archives, one for each",
                ),
            )


def parse_recipients(texts: Sequence[str], user_home: str) -> Recipients:
    """Everything named, or a typed error that says which of them is wrong and why."""
    found = Recipients()
    for number, text in enumerate(texts, 1):
        where = "what is named to seal to"
        if len(texts) > 1:
            where = f"number {number} of {where}"
        for one in _read(text.strip(), where, user_home):
            found.add(one)
    found.check()
    return found


def _read(text: str, where: str, user_home: str) -> Iterator[AgeRecipient | SshRecipient | str]:
    known = _known(text, where)
    if known is not None:
        yield known
        return
    path = os.path.join(user_home, text[2:]) if text.startswith("~/") else text
    if not text or not os.path.exists(path):
        raise bad_recipient(where, "it is neither a key nor a file")
    yield from _from_file(path)


def _known(text: str, where: str) -> AgeRecipient | SshRecipient | str | None:
    """One recipient written out; None for what is none of them."""
    if text in (PASSPHRASE, GPG_SYMMETRIC) or text.startswith(GPG):
        return text
    if text.upper().startswith(("AGE-SECRET-KEY-", "AGE-PLUGIN-")):
        raise bad_recipient(where, "it is the private half of a pair, which must not be here", _PUBLIC_HALF)
    try:
        if text.lower().startswith("age1"):
            return parse_recipient(text)
        if _SSH.match(text):
            return parse_public(text)
    except ValueError as error:
        raise bad_recipient(where, str(error)) from None
    return None


def _from_file(path: str) -> Iterator[AgeRecipient | SshRecipient | str]:
    try:
        with open(path, "rb") as file:
            data = file.read(_LIMIT + 1)
    except OSError as error:
        raise _unreadable(path, (error.strerror or str(error)).lower()) from error
    if len(data) > _LIMIT:
        raise _unreadable(path, "it is far too long for a list of keys")
    if b"PRIVATE KEY" in data:
        raise bad_recipient(f"`{path}`", "it is a private key, which is not needed here", _PUBLIC_HALF)
    lines = data.decode("utf-8", "replace").splitlines()
    found = False
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        where = f"line {number} of `{path}`"
        one = _known(line, where)
        if one is None or one in (PASSPHRASE, GPG_SYMMETRIC):
            raise bad_recipient(where, "it is no key")
        found = True
        yield one
    if not found:
        raise _unreadable(path, "there is no key in it")


def _unreadable(path: str, why: str) -> RecipientsUnreadable:
    return RecipientsUnreadable(
        f"The recipients in `{path}` cannot be read: {why}",
        kept=NOTHING_WRITTEN,
        next_steps=("Name a file with one recipient per line: `age1…`, an SSH public key, or `gpg:KEY`",),
        path=path,
    )


_AGE = (b"age-encryption.org/", b"-----BEGIN AGE ENCRYPTED FILE-----")
_GLANCE, _HEAD = 64, 4096

__all__ = [
    "NO_IDENTITY",
    "Ask",
    "Identity",
    "Seal",
    "make_seal",
    "open_sealed",
    "sealed_kind",
]


@dataclass(frozen=True, slots=True)
class Seal:
    """How an archive is sealed, decided and checked before anything of it is read."""

    kind: str  # "age" or "gpg"
    to: tuple[str, ...]  # public names of those who can open it; `passphrase` where that is a secret
    output: Callable[[str], Target]

    @property
    def suffix(self) -> str:
        return SEALS[self.kind]

    def as_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "to": list(self.to)}


def make_seal(texts: Sequence[str], *, user_home: str, environment: Mapping[str, str], ask: Ask) -> Seal:
    """The seal for these recipients, as `--seal` takes them. `ask` is called where one is a passphrase."""

    found = parse_recipients(texts, user_home)
    if found.gpg or found.passphrase == GPG_SYMMETRIC:
        return _gpg_seal([text.removeprefix(GPG) for text in found.gpg], environment, ask)
    from .age.file import AgeOutput, Wrapping
    from .age.keys import Passphrase

    wrapping: list[Wrapping] = list(found.keys)
    if found.passphrase:
        wrapping = [Passphrase(ask("Passphrase for the archive", True))]
    names = tuple(map(str, found.keys)) or (found.passphrase,)
    return Seal("age", names, lambda path: AgeOutput(path, wrapping))


def _gpg_seal(wanted: list[str], environment: Mapping[str, str], ask: Ask) -> Seal:
    from ..errors import NOTHING_WRITTEN
    from .errors import gpg_missing
    from .gpg.keys import find_key
    from .gpg.output import GpgOutput
    from .gpg.program import find_gpg

    if find_gpg(environment) is None:
        raise gpg_missing(NOTHING_WRITTEN)
    keys = {(key := find_key(name, environment)).fingerprint: key for name in wanted}
    passphrase = None if keys else ask("Passphrase for the archive", True)
    names = tuple(map(str, keys.values())) or ("gpg-symmetric",)
    return Seal("gpg", names, lambda path: GpgOutput(path, list(keys.values()), passphrase, environment))


def sealed_kind(handle: Handle) -> str:
    """`age`, `gpg`, or empty for what is not sealed; known by content, never by name."""
    head = handle.start(_GLANCE)
    if head.startswith(_AGE):
        return "age"
    from .gpg.message import ARMOR, NotAMessage, read_opening

    if head.startswith(ARMOR):
        return "gpg"
    if not head[:1] > b"\x7f":
        return ""
    try:
        found = read_opening(head := handle.start(_HEAD))
    except NotAMessage:
        return ""
    # A packet that goes beyond what was looked at is still one whose header makes sense.
    return "gpg" if found is not None or len(head) == _HEAD else ""


def needs_key_file(path: str) -> bool:
    """Whether a file opens with an age key: not with a passphrase, nor by gpg's own keys."""
    handle = open_handle(path)
    try:
        return sealed_kind(handle) == "age" and b"\n-> scrypt " not in handle.start(_HEAD)
    finally:
        handle.close()


def open_sealed(handle: Handle, kind: str, identity: Identity, limits: ReadLimits) -> Handle:
    """The clear text inside, by position. Takes the handle over; on an error the caller closes it."""
    if kind == "age":
        from .identities import open_age

        return open_age(handle, identity)
    from .errors import gpg_missing
    from .gpg.message import open_gpg
    from .gpg.program import find_gpg

    if find_gpg(identity.environment) is None:
        raise gpg_missing(NOTHING_CHANGED)
    return open_gpg(handle, identity, limits)
