"""The user for whom a program calls: their settings and places, read at every call as the CLI does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from safekept.actions.base.context import UserContext
from safekept.actions.projects.checkpoint import CheckpointPolicy
from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass
from safekept.settings import Settings, load_settings
from safekept.settings.context import context_of
from safekept.settings.policies import policy_from

#: What a path may be given as.
PathLike = str | os.PathLike[str]
Word = TypeVar("Word", str, PathLike)


@dataclass(frozen=True, slots=True)
class ApiUser:
    """Everything that an action needs to know of this user."""

    settings: Settings
    context: UserContext

    @property
    def policy(self) -> CheckpointPolicy:
        return policy_from(self.settings, self.context)

    @property
    def deadline(self) -> float:
        return self.settings.number("database.deadline")


class BadArgument(SafekeptError):
    code, exit_code = "bad-argument", 2


def one_of(name: str, value: str, known: Sequence[str]) -> str:
    """The value, if it is a known one; a misspelt word is an error before anything is done."""
    if value not in known:
        raise BadArgument(
            f"`{name}` is {value!r}, which is none of: {', '.join(known)}",
            kept="Nothing changed",
            next_steps=(f"Use one of these words for `{name}`",),
        )
    return value


def current_user() -> ApiUser:
    settings = load_settings(os.environ)
    context = context_of(settings, actor="api")
    return ApiUser(settings, context.changed(keep_connected=_keep_connected, directory=standing()))


def _keep_connected(context: UserContext, home: str) -> Callable[[], tuple[str, ...]]:
    """Agents that are connected stay so when their settings are put back, as with the command line."""
    from safekept.integrations.connecting.keeping import holding

    return holding(context, home)


def text(path: PathLike | None) -> str:
    """A path as the actions take it; nothing for None."""
    found = any_text(path)
    if "\0" in found:
        raise BadArgument(
            f"{found!r} is no path: it holds a NUL character",
            kept="Nothing changed",
            next_steps=("Give the path of a file or a directory",),
        )
    return found


def standing() -> str:
    """Where the program stands; nothing where that directory is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def any_text(path: PathLike | None) -> str:
    """The same for calls that never raise: what is no path at all is reported where it is looked for."""
    return "" if path is None else os.path.expanduser(os.fsdecode(path))


def texts(paths: Iterable[PathLike] | PathLike) -> tuple[str, ...]:
    """Several paths. One that is given by itself is meant whole, and not letter by letter."""
    return tuple(text(path) for path in words(paths))


def words(several: Iterable[Word] | Word) -> tuple[Word, ...]:
    """Several words. A single one is taken for a list of one: `files="a.py"` must never mean `.`."""
    if isinstance(several, str | bytes | os.PathLike):
        return (several,)
    return tuple(several)
