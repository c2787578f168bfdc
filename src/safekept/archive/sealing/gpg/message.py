"""Opens OpenPGP messages through gpg: with the keys of its agent, or with a passphrase.

The first run proves the message and tells its session key, which later runs are given: a smart card is
touched once, and a file that was swapped meanwhile does not open.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Mapping

from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass

from ...container.handle import Handle
from ...container.limits import ReadLimits
from ...errors import NOTHING_CHANGED, damaged, too_large
from ..errors import IdentityDoesNotFit, gpg_failed, wrong_passphrase
from ..identity import Identity
from ..proven_stream import ProvenHandle, StreamProof, prove_stream
from .program import WITH_PASSPHRASE, WITHOUT_KEYS, Gpg

# The first packets of an OpenPGP message: whom it is for, before anything in it is opened. Only packet
# headers are read; what is inside is gpg's business.

FOR_KEY, FOR_PASSPHRASE = 1, 3
_DATA = (9, 18, 20)
_VERSIONS = {FOR_KEY: (3, 6), FOR_PASSPHRASE: (4, 5, 6)}
ARMOR = b"-----BEGIN PGP MESSAGE-----"
#: More than this in front of the data is not a message for people.
LIMIT = 1 << 20


class NotAMessage(ValueError):
    """These are not the first bytes of an encrypted OpenPGP message."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What stands in front of the encrypted data."""

    packets: tuple[tuple[int, bytes], ...]  # tag and the whole packet
    size: int

    def of(self, tag: int) -> list[bytes]:
        return [packet for found, packet in self.packets if found == tag]

    @property
    def key_ids(self) -> list[str]:
        """The keys it is for, as 16 letters each; zeros where the sender hides them."""
        return [_body(packet)[1:9].hex().upper() for packet in self.of(FOR_KEY)]


def read_opening(data: bytes) -> Opening | None:
    """The packets before the encrypted data; None where `data` ends within them. Raises NotAMessage."""
    position = 0
    found: list[tuple[int, bytes]] = []
    while True:
        header = _header(data, position)
        if header is None:
            return None
        tag, start, length = header
        if tag in _DATA and found:
            return Opening(tuple(found), position)
        if tag not in _VERSIONS or length is None or length > LIMIT:
            raise NotAMessage
        if len(data) < start + 1:
            return None
        if data[start] not in _VERSIONS[tag]:
            raise NotAMessage
        if start + length > len(data):
            return None
        found.append((tag, data[position : start + length]))
        position = start + length


def opening_of(head: bytes) -> Opening | None:
    """The same for a message as it lies in a file, armored or not; None for what is none."""
    try:
        if head.lstrip().startswith(ARMOR):
            head = _without_armor(head.lstrip())
        return read_opening(head)
    except (NotAMessage, binascii.Error, ValueError):
        return None


def _without_armor(text: bytes) -> bytes:
    """As much of the bytes as whole lines give."""
    lines = text.replace(b"\r\n", b"\n").split(b"\n")
    try:
        start = lines.index(b"", 1) + 1
    except ValueError:
        raise NotAMessage from None
    letters = b"".join(line for line in lines[start:-1] if not line.startswith((b"=", b"-")))
    return base64.b64decode(letters[: len(letters) // 4 * 4], validate=True)


def _header(data: bytes, position: int) -> tuple[int, int, int | None] | None:
    """Tag, start of the body, and its length (None: in parts) of the packet there."""
    if position >= len(data):
        return None
    first = data[position]
    if not first & 0x80:
        raise NotAMessage
    if not first & 0x40:  # the old format
        width = (1, 2, 4, 0)[first & 3]
        start = position + 1 + width
        if start > len(data):
            return None
        return first >> 2 & 15, start, int.from_bytes(data[position + 1 : start], "big") if width else None
    if position + 6 > len(data):
        return None
    tag, length = first & 63, data[position + 1]
    if length < 192:
        return tag, position + 2, length
    if length < 224:
        return tag, position + 3, (length - 192 << 8) + data[position + 2] + 192
    if length < 255:
        return tag, position + 2, None
    return tag, position + 6, int.from_bytes(data[position + 2 : position + 6], "big")


def _body(packet: bytes) -> bytes:
    header = _header(packet, 0)
    assert header is not None
    return packet[header[1] :]


class GpgStream:
    """One run of `gpg --decrypt`."""

    def __init__(self, run: Gpg, judge: Callable[[Gpg], SafekeptError]) -> None:
        self._run, self._judge = run, judge

    def read(self, size: int) -> bytes:
        return self._run.read(size)

    def verify(self) -> None:
        """Raise unless gpg says that it opened one whole, authenticated message."""
        if not self._run.finish() or not authenticated(self._run):
            raise self._judge(self._run)

    @property
    def session_key(self) -> str:
        found = self._run.status_lines("SESSION_KEY")
        return found[0][0] if found else ""

    def close(self) -> None:
        self._run.close()


def authenticated(run: Gpg) -> bool:
    """One message, opened, its integrity proven: by the MDC, or by the mode of an AEAD packet."""
    facts = run.status_lines("DECRYPTION_INFO")
    aead = bool(facts) and len(facts[0]) > 2 and facts[0][2] != "0"
    return (
        bool(run.status_lines("DECRYPTION_OKAY"))
        and (bool(run.status_lines("GOODMDC")) or aead)
        and not run.status_lines("BADMDC")
        and not run.status_lines("DECRYPTION_FAILED")
        and len(run.status_lines("PLAINTEXT")) == 1
    )


def open_gpg(handle: Handle, identity: Identity, limits: ReadLimits) -> Handle:
    """The clear text of a sealed file, every byte of it proven; takes the handle over."""
    path = handle.path
    opening = opening_of(handle.some(0, LIMIT))
    if opening is None:
        raise damaged(path, "the beginning of its seal is broken")
    by_key = bool(opening.of(FOR_KEY))

    def run(more: tuple[str, ...], hidden: Mapping[str, bytes]) -> GpgStream:
        source = os.open(f"/dev/fd/{handle.descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.lseek(source, 0, os.SEEK_SET)  # some systems share the position with the one it was opened by
            started = Gpg(
                ["--decrypt", *more], identity.environment, kept=NOTHING_CHANGED, secrets=hidden, stdin=source
            )
        finally:
            os.close(source)
        return GpgStream(started, lambda ended: _judged(path, opening, ended))

    def check(size: int) -> None:
        if size > max(limits.ratio_floor, handle.size * limits.ratio):
            raise too_large(path, f"unpacks to more than {limits.ratio} times its size, as bombs do")

    def proven(more: tuple[str, ...], hidden: Mapping[str, bytes]) -> tuple[StreamProof, bytes]:
        first = run(("--show-session-key", *more), hidden)
        return prove_stream(first, check), first.session_key.encode()

    def with_passphrase(text: str) -> tuple[StreamProof, bytes]:
        arguments = WITH_PASSPHRASE if by_key else (WITHOUT_KEYS, *WITH_PASSPHRASE)
        return proven(arguments, {"--passphrase-fd": text.encode("utf-8", "surrogateescape")})

    if not by_key or (identity.unattended and identity.ask is not None):
        proof, session = identity.opened_file(path, with_passphrase)
    else:
        proof, session = proven((), {})
    return ProvenHandle(handle, proof, lambda: run((WITHOUT_KEYS,), {"--override-session-key-fd": session}))


def _judged(path: str, opening: Opening, run: Gpg) -> SafekeptError:
    """Why a message was not opened."""
    if run.status_lines("BEGIN_DECRYPTION") and run.status_lines("PLAINTEXT"):
        return damaged(path, "its seal is broken: a part of it was altered, or is missing")
    if not opening.of(FOR_KEY):
        if run.status_lines("NEED_PASSPHRASE_SYM"):
            return wrong_passphrase(path)
        return gpg_failed("open the archive", run.reason, NOTHING_CHANGED)
    missing = run.status_lines("NO_SECKEY")
    if missing and len(missing) >= len(opening.key_ids):
        ids = ", ".join(dict.fromkeys(opening.key_ids))
        return IdentityDoesNotFit(
            f"`{path}` is sealed to the GPG key {ids}, and gpg has no private key for it here",
            kept=NOTHING_CHANGED,
            next_steps=(
                "Open it on the machine that holds the private key, or import that here: `gpg --import FILE`",
                "See which private keys gpg has: `gpg --list-secret-keys`",
            ),
            path=path,
            keys=opening.key_ids,
        )
    if run.status_lines("BEGIN_DECRYPTION"):
        return damaged(path, "its seal is broken: a part of it was altered, or is missing")
    return gpg_failed("open the archive", run.reason, NOTHING_CHANGED)
