"""The key file: one line, as restic's `--password-file` reads it, 0600 from its first byte.

It is written durably before the vault that needs it, and an existing one is never overwritten: it
may be the only copy of the key to a history.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Self

from safekept.core.errors import SafekeptError
from safekept.core.files import fsync_directory, link_once, temporary_name, write_all
from safekept.core.platform.syncing import sync_file

from .passphrase import LONGEST, SAFE, BadKey, secret_from_text

if TYPE_CHECKING:
    from safekept.vault.repo import Secret


class KeyMissing(SafekeptError):
    code, exit_code = "vault-key-missing", 12

    @classmethod
    def at(cls, vault: str, key_file: str) -> Self:
        return cls(
            f"The vault at `{vault}` is there, but its key file `{key_file}` is not",
            kept="Nothing was changed; the snapshots in the vault are whole",
            next_steps=(
                f"Put the key from your kit into `{key_file}`, as one line, and run the command again",
                "Or use the recovery passphrase: run the command at a terminal and it will ask for it",
                "Or let a command print it: set `SAFEKEPT_VAULT_PASSPHRASE_COMMAND`",
            ),
            place=vault,
            key_file=key_file,
        )


class KeyExists(SafekeptError):
    code = "key-file-exists"


class KeyUnwritable(SafekeptError):
    code = "vault-key-unwritable"


def secret_from_file(path: str) -> Secret | None:
    """The key in a file, or None where there is no such file."""
    try:
        with open(path, "rb") as file:
            data = file.read(LONGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise BadKey(
            f"The key file `{path}` cannot be read: {error.strerror}",
            kept=SAFE,
            next_steps=("Run safekept as the user who owns it, or correct the setting `vault.key_file`",),
            key_file=path,
        ) from error
    if len(data) > LONGEST:
        raise BadKey(
            f"The key file `{path}` is not a key: it has more than {LONGEST} bytes",
            kept=SAFE,
            next_steps=("Correct the setting `vault.key_file`",),
            key_file=path,
        )
    return secret_from_text(data.decode("utf-8", "surrogateescape"), f"The key file `{path}`")


def close_to_others(path: str) -> str:
    """Take everybody else's rights off a key file that others could read; what to say of it, or empty."""
    try:
        facts = os.stat(path)
        mode = stat.S_IMODE(facts.st_mode)
        if not mode & 0o007:
            return ""
        if facts.st_uid != os.geteuid():
            return (
                f"the key file `{path}` can be read by everybody (mode {mode:04o}), and is not yours to close"
            )
        os.chmod(path, 0o600)
    except OSError as error:
        return f"the key file `{path}` can be read by everybody, and could not be closed: {error.strerror}"
    return f"the key file `{path}` could be read by everybody (mode {mode:04o}); now only by you (0600)"


def write_key_once(path: str, text: str) -> bool:
    """Put a key away, durable before this returns; False where the file exists, which is not touched."""
    directory = os.path.dirname(path)
    try:
        durable_directory(directory)
        temporary = temporary_name(directory)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.fchmod(descriptor, 0o600)
                write_all(descriptor, text.encode("utf-8", "surrogateescape") + b"\n")
                sync_file(descriptor)
            finally:
                os.close(descriptor)
            link_once(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        fsync_directory(directory)
    except FileExistsError:
        return False
    except OSError as error:
        raise KeyUnwritable(
            f"The key file `{path}` cannot be written: {error.strerror}",
            kept="No vault was made: without its key it could never be opened",
            next_steps=("Make room or correct the setting `vault.key_file`, then run the command again",),
            key_file=path,
        ) from error
    return True


def durable_directory(path: str) -> None:
    """Make a directory that only its owner can enter, its parents too, all of them durable."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        fsync_directory(os.path.dirname(directory))
