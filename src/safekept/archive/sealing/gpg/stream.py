"""Opens OpenPGP messages through gpg: with the keys of its agent, or with a passphrase.

The first run proves the message and tells its session key, which later runs are given: a smart card is
touched once, and a file that was swapped meanwhile does not open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from safekept.core.errors import SafekeptError

from ...container.handle import Handle
from ...container.limits import Limits
from ...errors import NOTHING_CHANGED, damaged, too_large
from ..errors import IdentityDoesNotFit, gpg_failed, wrong_passphrase
from ..identity import Identity
from ..proven_stream import ProvenHandle, prove_stream
from .packets import FOR_KEY, LIMIT, Opening, opening_of
from .program import WITH_PASSPHRASE, WITHOUT_KEYS, Gpg


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
        found = self._run.said("SESSION_KEY")
        return found[0][0] if found else ""

    def close(self) -> None:
        self._run.close()


def authenticated(run: Gpg) -> bool:
    """One message, opened, its integrity proven: by the MDC, or by the mode of an AEAD packet."""
    facts = run.said("DECRYPTION_INFO")
    aead = bool(facts) and len(facts[0]) > 2 and facts[0][2] != "0"
    return (
        bool(run.said("DECRYPTION_OKAY"))
        and (bool(run.said("GOODMDC")) or aead)
        and not run.said("BADMDC")
        and not run.said("DECRYPTION_FAILED")
        and len(run.said("PLAINTEXT")) == 1
    )


def open_gpg(handle: Handle, identity: Identity, limits: Limits) -> Handle:
    """The clear text of a sealed file, every byte of it proven; takes the handle over."""
    path = handle.path
    opening = opening_of(handle.some(0, LIMIT))
    if opening is None:
        raise damaged(path, "the beginning of its seal is broken")
    secrets: dict[str, bytes] = {}
    arguments: tuple[str, ...] = ()
    by_key = bool(opening.of(FOR_KEY))
    if not by_key or (identity.unattended and identity.ask is not None):
        secrets["--passphrase-fd"] = identity.passphrase_of(path).encode("utf-8", "surrogateescape")
        arguments = WITH_PASSPHRASE if by_key else (WITHOUT_KEYS, *WITH_PASSPHRASE)

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

    first = run(("--show-session-key", *arguments), secrets)
    proof = prove_stream(first, check)
    session = first.session_key.encode()
    return ProvenHandle(handle, proof, lambda: run((WITHOUT_KEYS,), {"--override-session-key-fd": session}))


def _judged(path: str, opening: Opening, run: Gpg) -> SafekeptError:
    """Why a message was not opened."""
    if run.said("BEGIN_DECRYPTION") and run.said("PLAINTEXT"):
        return damaged(path, "its seal is broken: a part of it was altered, or is missing")
    if not opening.of(FOR_KEY):
        if run.said("NEED_PASSPHRASE_SYM"):
            return wrong_passphrase(path)
        return gpg_failed("open the archive", run.reason, NOTHING_CHANGED)
    missing = run.said("NO_SECKEY")
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
    if run.said("BEGIN_DECRYPTION"):
        return damaged(path, "its seal is broken: a part of it was altered, or is missing")
    return gpg_failed("open the archive", run.reason, NOTHING_CHANGED)
