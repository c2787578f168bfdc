"""Passphrases and keys as a person or a program gives them: one line, never on a command line.

A command is run without a shell, as restic runs its `--password-command`.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from typing import TYPE_CHECKING, Self

from safekept.core.ages import count_text
from safekept.core.errors import SafekeptError

if TYPE_CHECKING:
    from safekept.vault.repo import Repository, Secret
    from safekept.vault.storage import Storage

#: A passphrase command may ask a person (a smart card, a password store), but not for ever.
COMMAND_SECONDS = 120.0
#: Bytes; what is longer is not a key or passphrase but some other file.
LONGEST = 4096
#: Characters. The derivation is slow, but a handful of letters is guessed all the same.
SHORTEST = 8

#: How often a person may type one before a command gives up.
PASSPHRASE_TRIES = 3

SAFE = "Nothing was written to the vault"
UNTOUCHED = "Nothing changed"


class BadKey(SafekeptError):
    code, exit_code = "bad-vault-key", 12


class PassphraseCommandFailed(SafekeptError):
    code, exit_code = "passphrase-command-failed", 12


class NoPassphrase(SafekeptError):
    code, exit_code = "no-passphrase", 2

    @classmethod
    def given(cls, *, yes: bool = False) -> Self:
        """`yes`: there may be a terminal, and `--yes` says that nothing is asked at it."""
        why = "`--yes` asks nothing" if yes else "there is no terminal to ask at"
        return cls(
            f"No passphrase was given, and {why}",
            kept=SAFE,
            next_steps=(
                f"Run it {'without `--yes`' if yes else 'at a terminal'}, or give the passphrase with "
                "`--passphrase-file PATH`, `--passphrase-fd N` or `--passphrase-command COMMAND`",
            ),
        )


class PassphraseTooShort(SafekeptError):
    code, exit_code = "passphrase-too-short", 2


class BadPassphrase(SafekeptError):
    code, exit_code = "bad-passphrase", 2


class PassphraseMismatch(SafekeptError):
    code, exit_code = "passphrase-mismatch", 2

    @classmethod
    def typed(cls) -> Self:
        return cls(
            "What was typed the second time is not what was typed the first time",
            kept=UNTOUCHED,
            next_steps=("Run the command again, and type the same passphrase twice",),
        )


_FIRST, _SECOND = "bdfghjklmnprstvwz", "aeiou"


def easy_passphrase() -> str:
    """A new passphrase that can be read aloud and typed from paper: 76 bits in six groups of four letters."""
    import secrets

    groups = ("".join(secrets.choice(_FIRST) + secrets.choice(_SECOND) for _ in range(2)) for _ in range(6))
    return "-".join(groups)


def as_made(text: str) -> str:
    """A passphrase or key of our making as we write it, however it was typed; "" where it is none of ours.

    Capitals, blanks and hyphens say nothing in these; in a passphrase that a person chose they do.
    """
    letters = re.sub(r"[\s\u2010-\u2015-]", "", text)
    if re.fullmatch(f"(?:[{_FIRST}][{_SECOND}]){{12}}", letters.lower()):
        letters = letters.lower()
    elif re.fullmatch("[A-Z2-7]{52}", letters.upper()):
        letters = letters.upper()
    else:
        return ""
    return "-".join(letters[start : start + 4] for start in range(0, len(letters), 4))


def open_with(storage: Storage, secret: Secret, cache: str = "") -> Repository:
    """As it was given; where that opens nothing and it is of our making, as we write it. Raises WrongKey."""
    from safekept.vault.errors import WrongKey
    from safekept.vault.repo import Repository, Secret

    try:
        return Repository.open(storage, secret, cache=cache)
    except WrongKey:
        made = as_made(secret.text)
        if made not in ("", secret.text):
            with contextlib.suppress(WrongKey):
                return Repository.open(storage, Secret(made), cache=cache)
        raise


def check_strength(secret: Secret) -> None:
    """Refuse a new passphrase that would be guessed in an afternoon."""
    if len(secret.text) < SHORTEST:
        raise PassphraseTooShort(
            f"A passphrase of {count_text(len(secret.text), 'character')} is too short: at least {SHORTEST}",
            kept=SAFE,
            next_steps=("Choose a longer one; four or five words are good",),
        )


def secret_from_text(text: str, origin: str) -> Secret:
    """One line as a Secret; `origin` names where it came from when it is no usable one."""
    from safekept.vault.repo import Secret, check_secret

    secret = Secret(text.strip())
    try:
        check_secret(secret)
    except ValueError as error:
        reason = "is empty" if not secret.text else "has more than one line"
        raise BadKey(
            f"{origin} {reason}; a key or passphrase is one line",
            kept=SAFE,
            next_steps=("Give one line of text, and nothing else",),
        ) from error
    return secret


def passphrase_from(data: bytes, origin: str) -> str:
    """The one line that was given for a sealed file, blanks and all: other tools keep them, too."""
    text = data.decode("utf-8", "surrogateescape").rstrip("\r\n")
    if not text or len(data) > LONGEST or any(letter in text for letter in "\n\r\0"):
        reason = "is empty" if not text else "is not one line"
        raise BadPassphrase(
            f"{origin} {reason}; a passphrase is one line",
            kept=UNTOUCHED,
            next_steps=("Give one line of text, and nothing else",),
        )
    return text


def secret_from_command(command: str) -> Secret:
    """What a command prints, as restic's `--password-command` takes it: no shell, one line."""
    printed = printed_by(command, "the setting `vault.passphrase_command`", SAFE)
    return secret_from_text(printed.decode("utf-8", "surrogateescape"), "What the command printed")


def printed_by(command: str, named_in: str, kept: str = UNTOUCHED) -> bytes:
    """What a passphrase command prints; `named_in` is where it was said."""
    import subprocess

    def failed(reason: str) -> PassphraseCommandFailed:
        return PassphraseCommandFailed(
            f"The passphrase command `{command}` gave no passphrase: {reason}",
            kept=kept,
            next_steps=(f"Run that command by itself, and correct {named_in}",),
            reason=reason,
        )

    try:
        words = shlex.split(command)
        if not words:
            raise failed("it is empty")
        found = subprocess.run(words, stdout=subprocess.PIPE, timeout=COMMAND_SECONDS, check=False)
    except ValueError as error:
        raise failed(str(error)) from error
    except subprocess.TimeoutExpired as error:
        raise failed(f"it did not answer in {COMMAND_SECONDS:.0f} s") from error
    except OSError as error:
        raise failed(error.strerror or str(error)) from error
    if found.returncode != 0:
        raise failed(f"it ended with status {found.returncode}")
    return found.stdout
