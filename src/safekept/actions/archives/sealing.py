"""Seals and identities of this user: what the settings and the command line say, ready for the archive room.

A passphrase is asked for by the face; it is never written, recorded or put on a command line.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import field

from safekept.archive.errors import NOTHING_WRITTEN
from safekept.archive.sealing import Identity, Seal, make_seal
from safekept.core.errors import SafekeptError
from safekept.core.files import fsync_directory, write_all
from safekept.core.next_step import NextStep
from safekept.core.owner import held_output
from safekept.core.platform.syncing import sync_file
from safekept.core.records import dataclass

from ..base.context import UserContext
from ..vault.keys.passphrase import PASSPHRASE_TRIES, SHORTEST, NoPassphrase, PassphraseTooShort


def identity_of(context: UserContext, files: Sequence[str] = ()) -> Identity:
    """What may open a sealed file: the files named, else those of the settings; ssh keys; gpg; a question."""
    named = tuple(files) or context.choices.identities
    return Identity(
        files=tuple(_absolute(path, context.places.user_home) for path in named),
        ssh_directory=os.path.join(context.places.user_home, ".ssh"),
        environment=context.caller.environment,
        ask=context.caller.ask_passphrase,
        unattended=context.caller.passphrase_is_given,
        tries=1 if context.caller.passphrase_is_given else PASSPHRASE_TRIES,
    )


def seal_for(context: UserContext, recipients: Sequence[str], *, preview: bool = False) -> Seal | None:
    """The seal that these recipients make, everything about them checked; None where there are none.

    A preview asks for no passphrase, and what it returns is only good for its name.
    """
    if not recipients:
        return None

    def ask(question: str, new: bool) -> str:
        return "" if preview else new_passphrase(context, question, NOTHING_WRITTEN)

    return make_seal(
        recipients, user_home=context.places.user_home, environment=context.caller.environment, ask=ask
    )


def _absolute(path: str, user_home: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = user_home + path[1:]
    return os.path.abspath(path)


def new_passphrase(context: UserContext, question: str, kept: str) -> str:
    """A passphrase that something is about to be sealed with; `kept` is what holds where there is none."""
    if context.caller.ask_passphrase is None:
        raise NoPassphrase(
            "No passphrase was given, and there is no terminal to ask at",
            kept=kept,
            next_steps=(
                "Run it at a terminal, or give the passphrase with `--passphrase-file PATH`, "
                "`--passphrase-fd N` or `--passphrase-command COMMAND`",
                NextStep(
                    "backup keygen", before="For a schedule, set `seal.passphrase_command`, or seal to a key:"
                ),
            ),
        )
    asked = question
    for _ in range(1 if context.caller.passphrase_is_given else PASSPHRASE_TRIES):
        text = context.caller.ask_passphrase(asked, True)
        if len(text) >= SHORTEST:
            return text
        asked = f"Too short: at least {SHORTEST} characters. {question}"
    raise PassphraseTooShort(
        f"A passphrase of {len(text)} characters is too short: at least {SHORTEST}",
        kept=kept,
        next_steps=("Choose a longer one; four or five words are good",),
    )


# Pairs of keys for sealed archives, in the file format of age: `age` and safekept read each other's. The
# private half is written once, 0600 from its first byte, never over a file; it is the only copy, and
# neither the journal nor anything else of ours has it.

_NOT_MADE = "No key was made"


class IdentityExists(SafekeptError):
    code, exit_code = "identity-exists", 2


class IdentityUnwritable(SafekeptError):
    code = "identity-unwritable"


@dataclass(frozen=True, slots=True)
class Pair:
    """Both halves; `text` is the private one as a file has it."""

    public: str
    text: str = field(repr=False)


def make_pair(context: UserContext, path: str, *, protect: bool = False) -> Pair:
    """A new pair; the private half goes to `path` if that is given, protected by a passphrase if asked."""
    from safekept.archive.sealing import AgeIdentity, Passphrase, sealed_bytes

    if path and os.path.lexists(path):
        raise _exists(path)
    identity = AgeIdentity.generate()
    public = str(identity.recipient)
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    pair = Pair(public, f"# created: {made}\n# public key: {public}\n{identity.text}\n")
    if path:
        data = pair.text.encode()
        if protect:
            secret = new_passphrase(context, "Passphrase for the private half", _NOT_MADE)
            data = sealed_bytes(data, [Passphrase(secret)])
        try:
            with held_output(path) as held:
                _write_once(path, held, data)
        except OSError as error:
            raise _unwritable(path, error) from error
    return pair


def _write_once(path: str, held: str, data: bytes) -> None:
    """`held` is the name to write to; `path` is what it is called to people."""
    try:
        descriptor = os.open(held, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        os.fchmod(descriptor, 0o600)
        write_all(descriptor, data)
        sync_file(descriptor)
        fsync_directory(os.path.dirname(held))
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(held)
        raise _unwritable(path, error) from error
    finally:
        os.close(descriptor)


def _exists(path: str) -> IdentityExists:
    return IdentityExists(
        f"`{path}` exists, and may be the only key to archives that were sealed before",
        kept=f"It was left as it is. {_NOT_MADE}",
        next_steps=(NextStep("backup keygen", ("-o", "FILE"), before="Name another file:"),),
        path=path,
    )


def _unwritable(path: str, error: OSError) -> IdentityUnwritable:
    return IdentityUnwritable(
        f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}",
        kept=_NOT_MADE,
        next_steps=(NextStep("backup keygen", ("-o", "FILE"), before="Name a file where you may write:"),),
        path=path,
    )
