"""What a scripted model has an agent do, in words that belong to no host; each has tools of its own for it.

A step is what the model answers once: deeds that the agent does together, a text that ends the turn, or a
silence in which the test does something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Read:
    """Most hosts edit only what they have read. No change, so no state of the tree is recorded for it."""

    path: str


@dataclass(frozen=True)
class Write:
    path: str
    content: str


@dataclass(frozen=True)
class Edit:
    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Shell:
    command: str
    background: bool = False


@dataclass(frozen=True)
class Delegate:
    """A subagent with a prompt, and so a scene, of its own."""

    prompt: str


@dataclass(frozen=True)
class Await:
    """Until the last subagent has ended, where it works beside its caller. No change of the caller's."""

    agent: str = ""


@dataclass(frozen=True)
class Use:
    """A tool of the MCP server `safekept`. `confirm`: with the token of the plan before."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    confirm: bool = False


@dataclass(frozen=True)
class Seek:
    """Some hosts offer a tool only after the model has searched for it. No change."""

    words: str


@dataclass(frozen=True)
class Silence:
    """The model says nothing until the test lets it."""


Deed = Read | Write | Edit | Shell | Delegate | Await | Use | Seek
Step = str | Silence | Sequence[Deed]


def changes(step: Step) -> bool:
    """Whether something may be another after it."""
    return not isinstance(step, str | Silence) and not all(
        isinstance(deed, Read | Seek | Await) for deed in step
    )
