"""Key files: the master key of a vault, wrapped by a passphrase or by a generated key.

Every key file of a vault wraps the same master key, so a vault opens with any of them. A generated
key has 256 bits of its own and needs no stretching (opening costs milliseconds); a passphrase is
stretched as restic stretches it (about half a second for each guess).
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from typing import Any

from safekept.core.errors import BAD_SHAPE
from safekept.core.records import dataclass

from ..errors import VaultDamaged
from ..format.crypto import Key, Unauthentic
from ..format.go_text import format_time
from ..storage.base import FileKind, NotStored, Storage

MOST_KEYS = 20  # restic tries no more either
_SALT = 64
_MOST_MEMORY = 1 << 30  # a key file that wants more for its derivation is not derived


class BadKeyFile(Exception):
    """A file in `keys/` that is no key file: torn, changed, or with a derivation that we do not know."""


@dataclass(frozen=True, slots=True)
class Cost:
    """How hard a derivation is made: scrypt's N, r and p."""

    n: int
    r: int
    p: int

    @property
    def work(self) -> int:
        return self.n * self.r * self.p

    def check(self) -> None:
        power_of_two = self.n > 1 and self.n & (self.n - 1) == 0
        if not power_of_two or self.r < 1 or self.p < 1 or self.r * self.p >= 1 << 30:
            raise BadKeyFile("its scrypt parameters are not valid")
        if 128 * self.n * self.r > _MOST_MEMORY or self.work > 1 << 27:
            raise BadKeyFile("its scrypt parameters ask for too much")


FOR_GENERATED = Cost(1024, 8, 1)
FOR_PASSPHRASE = Cost(32768, 8, 6)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """What opens a vault. `generated` is true only for text of `generate_secret`: it is not stretched."""

    text: str
    generated: bool = False

    def __repr__(self) -> str:
        return "Secret(…)"

    @property
    def cost(self) -> Cost:
        return FOR_GENERATED if self.generated else FOR_PASSPHRASE


def generate_secret() -> Secret:
    """256 random bits, in groups that can be copied from paper: no blanks, no letters that look alike."""
    text = base64.b32encode(secrets.token_bytes(32)).decode().rstrip("=")
    return Secret("-".join(text[start : start + 4] for start in range(0, len(text), 4)), generated=True)


@dataclass(frozen=True, slots=True)
class KeyFile:
    """One key file as it is stored."""

    id: str
    created: str
    username: str
    hostname: str
    cost: Cost
    salt: bytes
    data: bytes

    @classmethod
    def parse(cls, name: str, text: bytes) -> KeyFile:
        try:
            fields: dict[str, Any] = json.loads(text)
            if fields["kdf"] != "scrypt":
                raise BadKeyFile("its key derivation is not scrypt")
            cost = Cost(int(fields["N"]), int(fields["r"]), int(fields["p"]))
            salt, data = (base64.b64decode(fields[part], validate=True) for part in ("salt", "data"))
            created, username, hostname = (
                str(fields.get(part) or "") for part in ("created", "username", "hostname")
            )
            found = cls(name, created, username, hostname, cost, salt, data)
        except BAD_SHAPE as error:
            raise BadKeyFile("it is not a key file") from error
        if len(salt) != _SALT:
            raise BadKeyFile("its salt does not have 64 bytes")
        cost.check()
        return found

    def open(self, secret: Secret) -> Key | None:
        """The master key, or None where this is not the secret of this file."""
        try:
            plain = _derive(secret, self.salt, self.cost).open(self.data)
        except Unauthentic:
            return None
        try:
            return Key.from_json(plain)
        except ValueError as error:
            raise BadKeyFile("there is no master key inside") from error


def make_key_file(
    secret: Secret, master: Key, *, username: str, hostname: str, now_ns: int, cost: Cost | None = None
) -> tuple[str, bytes]:
    """A new key file: its name and its bytes."""
    check_secret(secret)
    cost, salt = cost or secret.cost, secrets.token_bytes(_SALT)
    fields = {
        "created": format_time(now_ns),
        "username": username,
        "hostname": hostname,
        "kdf": "scrypt",
        "N": cost.n,
        "r": cost.r,
        "p": cost.p,
        "salt": base64.b64encode(salt).decode(),
        "data": base64.b64encode(_derive(secret, salt, cost).seal(master.to_json())).decode(),
    }
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest(), text


def check_secret(secret: Secret) -> None:
    """ValueError for what restic could not be given: it trims blanks and refuses an empty password."""
    if not secret.text or secret.text != secret.text.strip() or "\n" in secret.text or "\x00" in secret.text:
        raise ValueError("a passphrase is one line, not empty, without blanks at its ends")


def read_key_files(storage: Storage) -> Iterator[tuple[str, KeyFile | BadKeyFile]]:
    """At most MOST_KEYS files, in the storage's order; a bad one comes as its reason."""
    for number, (name, _size) in enumerate(storage.list(FileKind.KEY)):
        if number == MOST_KEYS:
            return
        try:
            text = storage.read(FileKind.KEY, name)
            if hashlib.sha256(text).hexdigest() != name:
                raise BadKeyFile("its content does not match its name")
            yield name, KeyFile.parse(name, text)
        except BadKeyFile as bad:
            yield name, bad
        except VaultDamaged as error:
            yield name, BadKeyFile(str(error.facts["reason"]))
        except NotStored:
            continue  # removed meanwhile


def _derive(secret: Secret, salt: bytes, cost: Cost) -> Key:
    derived = hashlib.scrypt(
        secret.text.encode("utf-8", "surrogateescape"),
        salt=salt,
        n=cost.n,
        r=cost.r,
        p=cost.p,
        dklen=64,
        maxmem=128 * cost.r * (cost.n + cost.p + 2) + (1 << 20),
    )
    return Key.from_bytes(derived)
