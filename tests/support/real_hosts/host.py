"""A real host as a test drives it: how it is set up in a throwaway home, started for one turn, and spoken to.

Adding one is one file beside this: its settings, its command, its tools, and which wire it speaks.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from types import ModuleType

    from .deeds import Deed
    from .ground import Ground
    from .model import Call, Model

#: No host asks anybody else than our model: no telemetry, no updates, no lists of models.
QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DO_NOT_TRACK": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "GEMINI_TELEMETRY_ENABLED": "false",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}


#: Seconds that a host gives an MCP server to start, on a busy machine.
STARTED = 600


class RealHost(ABC):
    """What every host has; each file beside this fills it in."""

    #: As `safekept connect` calls it.
    name: ClassVar[str]
    #: In npm, and the program that it installs.
    package: ClassVar[str]
    program: ClassVar[str]
    wire: ClassVar[ModuleType]

    @abstractmethod
    def spell(self, deed: Deed) -> Call | None:
        """The call of a tool of this host that does it; None: this host does not need it."""

    @abstractmethod
    def set_up(self, ground: Ground, model: Model) -> dict[str, str]:
        """Writes its settings, before safekept is connected; what its environment needs."""

    def connected(self, ground: Ground) -> None:
        """What a person would do after `safekept connect`."""

    @abstractmethod
    def command(self, prompt: str, again: bool = False) -> list[str]:
        """One turn without a person; `again`: the conversation goes on."""

    def resume(self, prompt: str, session: str) -> list[str]:
        """One turn of a conversation that is named."""
        raise NotImplementedError

    def listed(self, ground: Ground) -> str:
        """What the host itself has to resume from, as it says it."""
        raise NotImplementedError

    def delete(self, ground: Ground, session: str) -> None:
        """A conversation goes, by the host's own command where it has one."""
        raise NotImplementedError

    @abstractmethod
    def add_server(self, ground: Ground, command: list[str]) -> None:
        """Adds safekept's MCP server to its settings."""


def write_json(path: str, document: object) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)


def change_json(path: str, **fields: object) -> None:
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    write_json(path, {**document, **fields})
