"""Private SSH keys as they lie on disk: told apart without their passphrase, unlocked without a copy.

A protected key is unlocked by `ssh-keygen` itself, in a file that exists in memory only, with the
passphrase on a pipe: the function that stretches it (bcrypt) has no other home on most machines.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from safekept.core.platform.descriptors import in_memory, keeps_secrets_in_memory, name_of

from ..errors import bad_identity, wrong_passphrase
from ..identity import Identity, Opened
from .ssh_keys import KINDS, RSA, SshIdentity, fields

BEGIN_OPENSSH = b"-----BEGIN OPENSSH PRIVATE KEY-----"
_END_OPENSSH = b"-----END OPENSSH PRIVATE KEY-----"
BEGIN_RSA = b"-----BEGIN RSA PRIVATE KEY-----"
_MAGIC = b"openssh-key-v1\0"
_SECONDS = 60.0
_LOCKED = "it is protected by a passphrase, and none was given and there is no terminal to ask at"


def load_private(path: str, data: bytes, identity: Identity) -> SshIdentity:
    """What a private key file holds; raises BadIdentity."""
    if data.lstrip().startswith(BEGIN_RSA):
        return _old_rsa(path, data, identity)
    try:
        kind, blob, protected = _look(data)
    except (ValueError, IndexError, binascii.Error):
        raise bad_identity(path, "it is not a whole SSH private key") from None
    if kind not in KINDS:
        raise bad_identity(
            path,
            f"SSH keys of the kind {kind} can only sign",
            "Only keys of the kinds ssh-ed25519 and ssh-rsa can open what was sealed to them",
        )

    @cache
    def unlock() -> object:
        clear = _unlocked(path, data, identity) if protected else data
        return _parsed(path, clear)

    return SshIdentity(path, kind, blob, unlock)


def _look(data: bytes) -> tuple[str, bytes, bool]:
    """Kind, public half, and whether it needs a passphrase."""
    body = data.partition(BEGIN_OPENSSH)[2].partition(_END_OPENSSH)[0]
    raw = base64.b64decode(b"".join(body.split()), validate=True)
    if not raw.startswith(_MAGIC):
        raise ValueError
    position, parts = len(_MAGIC), []
    for _ in range(3):
        length = int.from_bytes(raw[position : position + 4], "big")
        parts.append(raw[position + 4 : position + 4 + length])
        position += 4 + length
    position += 4  # how many keys; there is always one
    length = int.from_bytes(raw[position : position + 4], "big")
    blob = raw[position + 4 : position + 4 + length]
    return fields(blob)[0].decode("ascii"), blob, parts[0] != b"none"


def _parsed(path: str, data: bytes) -> object:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        return load_ssh_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise bad_identity(path, "it is not a whole SSH private key") from None


def _old_rsa(path: str, data: bytes, identity: Identity) -> SshIdentity:
    """The PEM format of older days, whose public half is only known once it is unlocked."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    def load(passphrase: str | None) -> RSAPrivateKey:
        password = None if passphrase is None else passphrase.encode("utf-8", "surrogateescape")
        try:
            key: Any = load_pem_private_key(data, password)
            assert isinstance(key, RSAPrivateKey)
        except (ValueError, TypeError):
            if password is not None:
                raise wrong_passphrase(path) from None
            raise bad_identity(path, "it is not a whole SSH private key") from None
        return key

    key = _asked(path, identity, load) if b"ENCRYPTED" in data[:200] else load(None)
    line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return SshIdentity(path, RSA, base64.b64decode(line.split()[1]), lambda: key)


def _asked(path: str, identity: Identity, opening: Callable[[str], Opened]) -> Opened:
    if identity.ask is None:
        raise bad_identity(path, _LOCKED, _GIVE_IT)
    return identity.opened(f"Passphrase of the key `{path}`", opening)


_GIVE_IT = "Run it at a terminal, or give the passphrase with `--passphrase-file PATH` or `--passphrase-fd N`"


def _unlocked(path: str, data: bytes, identity: Identity) -> bytes:
    """The same key without its passphrase, never on a disk."""
    return _asked(path, identity, lambda text: _without_passphrase(path, data, text, identity.environment))


def _without_passphrase(path: str, data: bytes, passphrase: str, environment: Mapping[str, str]) -> bytes:
    if not keeps_secrets_in_memory():
        raise bad_identity(
            path,
            "keys with a passphrase can only be unlocked on Linux",
            "Use an age identity, or a copy of the key without a passphrase",
        )
    memory = in_memory("safekept-key")
    try:
        os.fchmod(memory, 0o600)
        os.write(memory, data)
        _take_passphrase_off(path, memory, passphrase, environment)
        return os.pread(memory, 1 << 20, 0)
    finally:
        with contextlib.suppress(OSError):
            os.ftruncate(memory, 0)
        os.close(memory)


def _take_passphrase_off(path: str, memory: int, passphrase: str, environment: Mapping[str, str]) -> None:
    place = name_of(memory)
    # Without a terminal of its own, and with nothing to draw a window on, it reads its standard input.
    kept = {name: environment[name] for name in ("PATH", "HOME") if name in environment}
    try:
        done = subprocess.run(
            ["ssh-keygen", "-p", "-q", "-N", "", "-f", place],
            input=passphrase.encode("utf-8", "surrogateescape") + b"\n",
            capture_output=True,
            pass_fds=(memory,),
            start_new_session=True,
            env={**kept, "LC_ALL": "C"},
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise bad_identity(
            path,
            "it is protected by a passphrase, and the program `ssh-keygen` is not on the PATH",
            "Install the OpenSSH client, then run the command again",
        ) from None
    except subprocess.TimeoutExpired:
        raise bad_identity(path, f"ssh-keygen did not answer in {_SECONDS:.0f} s") from None
    if done.returncode != 0:
        raise wrong_passphrase(path)
