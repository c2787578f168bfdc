"""Writes an OpenPGP message through gpg while the archive in it is still being made.

A host with only the public key cannot open what gpg made, so it could not read it back either. Therefore
gpg is asked for one more way in, a random passphrase that this process makes up. The packet for it is
taken out before the message reaches the disk, kept in memory, and laid in front of the message as the
disk gives it back: gpg itself opens it, all of it is compared and unpacked, and then both are forgotten.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence

from safekept.core.entries import CHUNK
from safekept.core.errors import SafekeptError
from safekept.core.worker import Worker

from ...container.handle import Handle
from ...container.output import Output
from ...errors import NOTHING_WRITTEN, damaged
from ..errors import gpg_failed
from ..proven_stream import ProvenHandle, StreamProof
from .keys import GpgKey
from .message import FOR_KEY, FOR_PASSPHRASE, LIMIT, GpgStream, NotAMessage, Opening, read_opening
from .program import PIPE, WITH_PASSPHRASE, WITHOUT_KEYS, Gpg

_STRONG = (
    "--cipher-algo=AES256",
    "--s2k-cipher-algo=AES256",
    "--s2k-digest-algo=SHA512",
    "--s2k-mode=3",
    "--s2k-count=65011712",
)


class GpgOutput:
    """An output whose bytes go through gpg; positions are those of the clear text."""

    sealed = True

    def __init__(
        self, path: str, keys: Sequence[GpgKey], passphrase: str | None, environment: Mapping[str, str]
    ) -> None:
        """Sealed to `keys`, or, where there are none, with `passphrase`."""
        self._keys, self._environment = list(keys), environment
        self._secret = (passphrase or secrets.token_urlsafe(32)).encode("utf-8", "surrogateescape")
        self.offset = 0
        self._proof = StreamProof()
        self._head = bytearray()
        self._opening: Opening | None = None
        self._guard = threading.Lock()
        self._inner = Output(path)
        self.path, self.directory = self._inner.path, self._inner.directory
        try:
            self._run = Gpg(
                [*self._how(), "--compress-algo=none", "--no-armor", "--output=-"],
                environment,
                kept=NOTHING_WRITTEN,
                secrets={"--passphrase-fd": self._secret},
                stdin=PIPE,
            )
        except BaseException:
            self._inner.discard()
            raise
        self._pump = Worker(self._carry, "safekept-gpg-pump")

    def _how(self) -> list[str]:
        if not self._keys:
            return ["--symmetric", WITHOUT_KEYS, *WITH_PASSPHRASE, *_STRONG]
        named = [f"--recipient={key.fingerprint}" for key in self._keys]
        # The extra passphrase is random, so stretching it would be time for nothing.
        return ["--encrypt", *named, "--no-encrypt-to", "--symmetric", *WITH_PASSPHRASE, "--s2k-count=1024"]

    @property
    def stored(self) -> int:
        return self._inner.stored

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append clear text."""
        with self._guard:
            try:
                self._run.write(memoryview(data))
            except (BrokenPipeError, ValueError):
                raise self._failure() from None
            self.offset += len(data)
            self._proof.add(data)

    def complete(self) -> None:
        """End the message, and hold it against what was asked for."""
        self._run.end_of_input()
        self._pump.wait()
        whole = self._run.finish()
        if self._pump.error is not None or not whole or not self._run.status_lines("END_ENCRYPTION"):
            raise self._failure()
        self._proof.end()
        opening = self._opening
        if opening is None:
            raise self._failure()
        found = opening.key_ids
        fitting = all(any(key_id in key.key_ids for key in self._keys) for key_id in found)
        if len(found) != len(self._keys) or not fitting:
            raise gpg_failed("seal it to the keys that were named", "others were used", NOTHING_WRITTEN)

    def _failure(self) -> SafekeptError:
        """What went wrong here or there: a full disk is ours to tell, the rest is gpg's."""
        self._run.end_of_input()
        self._pump.wait()
        self._run.finish()
        error = self._pump.error
        if isinstance(error, SafekeptError):
            return error
        return gpg_failed("seal the archive", self._run.reason, NOTHING_WRITTEN)

    # -- beside ----------------------------------------------------------------------------------

    def _carry(self) -> None:
        """From gpg to the file, without the packet that only we need."""
        try:
            while data := self._run.some():
                if self._opening is None:
                    data = self._without_own_packet(data)
                if data:
                    self._inner.write(data)
        except BaseException:
            self._run.process.kill()  # so that the writing end learns of it
            raise

    def _without_own_packet(self, data: bytes) -> bytes:
        self._head += data
        try:
            opening = read_opening(bytes(self._head))
        except NotAMessage:
            raise gpg_failed("seal the archive", "it wrote something else", NOTHING_WRITTEN) from None
        if opening is None:
            if len(self._head) > LIMIT:
                raise gpg_failed("seal the archive", "it wrote something else", NOTHING_WRITTEN)
            return b""
        self._opening, rest = opening, bytes(self._head[opening.size :])
        self._head.clear()
        return self._lasting() + rest

    def _lasting(self) -> bytes:
        """The packets that stay in front of the message."""
        assert self._opening is not None
        return b"".join(self._opening.of(FOR_KEY if self._keys else FOR_PASSPHRASE))

    # -- reading back ----------------------------------------------------------------------------

    def reopen(self) -> Handle:
        """The clear text as it comes back from the disk: compared with what was written, byte by byte."""
        inner = self._inner.reopen()
        front = self._lasting()
        if inner.some(0, len(front)) != front:
            inner.close()
            raise damaged(self.path, "the beginning of its seal is not the one that was written")
        assert self._opening is not None
        again = b"".join(self._opening.of(FOR_PASSPHRASE))

        def message() -> Iterator[bytes]:
            yield again
            position = len(front)
            while data := inner.some(position, CHUNK):
                position += len(data)
                yield data

        def run() -> GpgStream:
            started = Gpg(
                ["--decrypt", WITHOUT_KEYS, *WITH_PASSPHRASE],
                self._environment,
                kept=NOTHING_WRITTEN,
                secrets={"--passphrase-fd": self._secret},
                feed=message(),
            )
            return GpgStream(started, lambda ended: damaged(self.path, ended.reason))

        return ProvenHandle(inner, self._proof, run)

    def finish(self, path: str, replace: bool) -> str:
        return self._inner.finish(path, replace)

    def discard(self) -> None:
        """Leave nothing behind, no process either; may be called twice."""
        if self._run.process.poll() is None:
            self._run.process.kill()
        self._pump.wait()
        self._run.close()
        self._inner.discard()
