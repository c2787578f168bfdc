"""Seals: an archive that only the holder of another key can read, in formats that others maintain.

`Seal` is what an archive is written through, `open_sealed` the way back. Both work on a stream: nothing in
the clear touches a disk, memory does not grow with the archive, and no byte is handed on that was not
authenticated. Public names: `Seal`, `make_seal`, `sealed_kind`, `open_sealed`, `Identity`, `NOBODY`,
`SUFFIXES`, `unsealed_name`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..container.handle import Handle, open_handle
from ..container.limits import Limits
from ..container.output import Target
from ..errors import NOTHING_CHANGED
from .identity import NOBODY, Ask, Identity

#: What a sealed name ends in, behind `.zip` or `.tar.zst`.
SUFFIXES = {"age": ".age", "gpg": ".gpg"}
_AGE = (b"age-encryption.org/", b"-----BEGIN AGE ENCRYPTED FILE-----")
_GLANCE, _HEAD = 64, 4096

__all__ = [
    "NOBODY",
    "SUFFIXES",
    "Ask",
    "Identity",
    "Seal",
    "make_seal",
    "open_sealed",
    "sealed_kind",
    "unsealed_name",
]


@dataclass(frozen=True, slots=True)
class Seal:
    """How an archive is sealed, decided and checked before anything of it is read."""

    kind: str  # "age" or "gpg"
    to: tuple[str, ...]  # public names of whoever can open it; `passphrase` where that is a secret
    output: Callable[[str], Target]

    @property
    def suffix(self) -> str:
        return SUFFIXES[self.kind]

    def as_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "to": list(self.to)}


def make_seal(texts: Sequence[str], *, user_home: str, environment: Mapping[str, str], ask: Ask) -> Seal:
    """The seal for these recipients, as `--seal` takes them. `ask` is called where one is a passphrase."""
    from .recipients import GPG, GPG_SYMMETRIC, parse_recipients

    found = parse_recipients(texts, user_home)
    if found.gpg or found.passphrase == GPG_SYMMETRIC:
        return _gpg_seal([text.removeprefix(GPG) for text in found.gpg], environment, ask)
    from .age.keys import Passphrase
    from .age.output import AgeOutput, Wrapping

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
    from .gpg.packets import ARMOR, NotAMessage, read_opening

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
    """Whether a file opens with somebody's age key: not with a passphrase, nor by gpg's own keys."""
    handle = open_handle(path)
    try:
        return sealed_kind(handle) == "age" and b"\n-> scrypt " not in handle.start(_HEAD)
    finally:
        handle.close()


def open_sealed(handle: Handle, kind: str, identity: Identity, limits: Limits) -> Handle:
    """The clear text inside, by position. Takes the handle over; on an error the caller closes it."""
    if kind == "age":
        from .identities import open_age

        return open_age(handle, identity)
    from .errors import gpg_missing
    from .gpg.program import find_gpg
    from .gpg.stream import open_gpg

    if find_gpg(identity.environment) is None:
        raise gpg_missing(NOTHING_CHANGED)
    return open_gpg(handle, identity, limits)


def unsealed_name(name: str) -> str:
    """`a.tar.zst.age` -> `a.tar.zst`; other names as they are."""
    for suffix in SUFFIXES.values():
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name
