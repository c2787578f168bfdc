"""Who is asking to open a sealed file: where private keys lie, and how a passphrase is had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TypeVar

from safekept.core.records import dataclass

from ..errors import NOTHING_CHANGED
from .errors import IdentityNeeded, WrongPassphrase

Opened = TypeVar("Opened")
#: ask(question, new) -> a passphrase; a new one is asked for twice.
Ask = Callable[[str, bool], str]


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything that may be tried, in this order: the files named, the SSH keys, gpg's agent, a question."""

    files: tuple[str, ...] = ()  # age identities (protected or not) and SSH private keys
    ssh_directory: str = ""  # where ssh keeps its own; tried when something is sealed to an SSH key
    environment: Mapping[str, str] = field(default_factory=dict)  # for gpg and ssh-keygen
    ask: Ask | None = None  # ask(question, new) -> a passphrase; None where no person can be asked
    #: Whether `ask` answers without a person, so that it may unlock the keys of gpg's agent, too.
    unattended: bool = False
    tries: int = 1  # how often a person may type a passphrase; a command says the same again

    def opened(self, question: str, opening: Callable[[str], Opened]) -> Opened:
        """What `opening` makes of the passphrase that is the answer; asked for again while it is a wrong one.

        The caller has made sure that there is a person to ask. Raises WrongPassphrase after the last try.
        """
        assert self.ask is not None
        asked = question
        for left in range(self.tries - 1, -1, -1):
            try:
                return opening(self.ask(asked, False))
            except WrongPassphrase:
                if not left:
                    raise
                asked = f"That does not open it; {left} more {'try' if left == 1 else 'tries'}. {question}"
        raise AssertionError("asked at least once")

    def opened_file(self, path: str, opening: Callable[[str], Opened]) -> Opened:
        """The same for a sealed file, where perhaps no person can be asked."""
        if self.ask is None:
            raise IdentityNeeded(
                f"`{path}` is sealed with a passphrase, and none was given "
                "and there is no terminal to ask at",
                kept=NOTHING_CHANGED,
                next_steps=(
                    "Run it at a terminal, or give the passphrase with `--passphrase-file PATH`, "
                    "`--passphrase-fd N` or `--passphrase-command COMMAND`",
                ),
                path=path,
            )
        return self.opened(f"Passphrase of `{path}`", opening)


NO_IDENTITY = Identity()
