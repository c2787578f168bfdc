"""Whom an archive is sealed to, as people write it: keys, files of keys, `gpg:KEY`, or a passphrase."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import NOTHING_WRITTEN
from .age.keys import AgeRecipient, parse_recipient
from .age.ssh_keys import SshRecipient, parse_public
from .errors import RecipientsMixed, RecipientsUnreadable, bad_recipient

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
                "an archive is sealed in one way: to age and SSH keys, to GPG keys, or with one passphrase",
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
        f"the recipients in `{path}` cannot be read: {why}",
        kept=NOTHING_WRITTEN,
        next_steps=("Name a file with one recipient per line: `age1…`, an SSH public key, or `gpg:KEY`",),
        path=path,
    )
