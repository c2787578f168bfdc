"""Who is asking to open a sealed file: where private keys lie, and how a passphrase is had."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: ask(question, new) -> a passphrase; a new one is asked for twice.
Ask = Callable[[str, bool], str]


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything that may be tried, in this order: the files named, the SSH keys, gpg's agent, a question."""

    files: tuple[str, ...] = ()  # age identities (protected or not) and SSH private keys
    ssh_directory: str = ""  # where ssh keeps its own; tried when something is sealed to an SSH key
    environment: Mapping[str, str] = field(default_factory=dict)  # for gpg and ssh-keygen
    ask: Ask | None = None  # ask(question, new) -> a passphrase; None where nobody can be asked
    #: Whether `ask` answers without a person, so that it may unlock the keys of gpg's agent, too.
    unattended: bool = False


NOBODY = Identity()
