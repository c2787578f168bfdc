"""Seals and identities of this user: what the settings and the command line say, ready for the archive room.

A passphrase is asked of whoever the face named; it is never written, recorded or put on a command line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from safekept.archive.errors import NOTHING_WRITTEN
from safekept.archive.sealing import Identity, Seal, make_seal
from safekept.core.next_step import NextStep

from ..base.context import UserContext
from ..vault.keys.passphrase import SHORTEST, NoPassphrase, PassphraseTooShort


def identity_of(context: UserContext, files: Sequence[str] = ()) -> Identity:
    """What may open a sealed file: the files named, else those of the settings; ssh keys; gpg; a question."""
    named = tuple(files) or context.choices.identities
    return Identity(
        files=tuple(_absolute(path, context.places.user_home) for path in named),
        ssh_directory=os.path.join(context.places.user_home, ".ssh"),
        environment=context.caller.environment,
        ask=context.caller.ask_passphrase,
        unattended=context.caller.passphrase_is_given,
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
            "no passphrase was given, and there is no terminal to ask at",
            kept=kept,
            next_steps=(
                "Run it at a terminal, or give the passphrase with `--passphrase-file PATH`, "
                "`--passphrase-fd N` or `--passphrase-command COMMAND`",
                NextStep(
                    "backup keygen", before="For a schedule, set `seal.passphrase_command`, or seal to a key:"
                ),
            ),
        )
    text = context.caller.ask_passphrase(question, True)
    if len(text) < SHORTEST:
        raise PassphraseTooShort(
            f"a passphrase of {len(text)} characters is too short: at least {SHORTEST}",
            kept=kept,
            next_steps=("Choose a longer one; four or five words are good",),
        )
    return text
