"""What a rollback leaves for the sessions whose files it changed: a word to their agents, given once.

An agent that does not know of a rollback does again what was undone. One small file for each session that
worked in the place; it is gone when it was told. The caller opens one file and no store. Losing it costs
a sentence, so nothing here is synced and nothing raises.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from safekept.core.files import temporary_name
from safekept.core.files.small import read_fields, write_document
from safekept.core.records import dataclass
from safekept.core.spelling import shown

from ..base.context import UserContext
from ..hosts.calls import integrations_directory

#: Who acts where an agent asks by our own server.
_BY_SERVER = "agent:mcp"
#: So many sessions of one place are told, the newest; and each of so many places.
_SESSIONS = 50
_PLACES = 5
#: A session that does not come back in so many seconds is over.
_OVER = 30 * 86400.0
_NAMED = 3
_LONGEST = 120


@dataclass(frozen=True, slots=True)
class RollbackNews:
    """One rollback, as far as an agent has to know of it."""

    place: str  # the project, or the agent's home
    point: str  # as it is called: "checkpoint 1a2b", "home point 3c4d"
    reason: str = ""
    files: tuple[str, ...] = ()  # empty: all of the place
    more: int = 0  # files beside those
    undo: bool = False  # it took a rollback back
    by: str = ""

    @property
    def text(self) -> str:
        """For the agent: a name from the disk stays a name, on one line and of bounded length."""
        where = f"in `{_short(self.place, 400)}`"
        if self.undo:
            return (
                f"safekept: since your last turn a rollback {where} was taken back on purpose: the files are "
                "again as they were before it. Read them again before you change them."
            )
        what, verb = "the files", "were"
        if self.files:
            what = ", ".join(f"`{_short(name)}`" for name in self.files)
            what += f" and {self.more} more" if self.more else ""
            verb = "was" if len(self.files) == 1 else "were"
        reason = f" ({_short(self.reason)})" if self.reason else ""
        return (
            f"safekept: since your last turn {what} {where} {verb} restored on purpose to "
            f"{self.point}{reason}. Do not redo what was undone unless you are asked to, and read the files "
            "again before you change them."
        )


def leave_news(context: UserContext, news: RollbackNews, sessions: Iterable[str]) -> None:
    """For the next turn of each of these sessions."""
    directory = _directory(context.places.data_directory)
    more = max(0, len(news.files) - _NAMED)
    news = replace(news, by=context.caller.actor, files=news.files[:_NAMED], more=more)
    with contextlib.suppress(OSError, ValueError):
        _sweep(directory)
        for session in list(dict.fromkeys(filter(None, sessions)))[:_SESSIONS]:
            path = _path(context.places.data_directory, session)
            others = [one for one in _news(read_fields(path), session) if one.place != news.place]
            _write(path, session, [*others, news][-_PLACES:])


def leave_undone_home(context: UserContext, home: str) -> None:
    """The same where a rollback of a home point was taken back."""
    from .home_points.timeline import home_points

    points = home_points(context, home=home, every=True)
    leave_news(context, RollbackNews(home, "", undo=True), [point.session for point in points])


def take_news(data_directory: str, session: str) -> str:
    """What an agent has to be told now. Only the first caller gets it."""
    if not session:
        return ""
    path = _path(data_directory, session)
    mine = temporary_name(os.path.dirname(path))
    try:
        os.rename(path, mine)
    except OSError:
        return ""
    found = _news(read_fields(mine), session)
    with contextlib.suppress(OSError):
        os.unlink(mine)
    return " ".join(one.text for one in found)


def drop_own_news(data_directory: str, session: str, asked: bool) -> None:
    """A tool of this session ended. `asked`: it was one that goes back; then its agent knows already, as it
    does of what our server did meanwhile."""
    path = _path(data_directory, session)
    if not session or not os.path.exists(path):
        return
    left = [one for one in _news(read_fields(path), session) if not asked and one.by != _BY_SERVER]
    with contextlib.suppress(OSError):
        if left:
            _write(path, session, left)
        else:
            os.unlink(path)


def _news(document: dict[str, object], session: str) -> list[RollbackNews]:
    listed = document.get("news") if document.get("session") == session else None
    found = []
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, dict):
            continue
        place, point, reason, by = (one.get(name) for name in ("place", "point", "reason", "by"))
        files = one.get("files")
        names = tuple(name for name in files if isinstance(name, str)) if isinstance(files, list) else ()
        if isinstance(place, str) and isinstance(point, str) and isinstance(reason, str):
            more = one.get("more")
            undo = one.get("undo") is True
            found.append(
                RollbackNews(place, point, reason, names, more if isinstance(more, int) else 0, undo, str(by))
            )
    return found


def _write(path: str, session: str, news: Sequence[RollbackNews]) -> None:
    write_document(path, {"session": session, "news": [asdict(one) for one in news]}, durable=False)


def _short(text: str, length: int = _LONGEST) -> str:
    text = shown(text).replace("`", "'")
    return text if len(text) <= length else text[: length - 1] + "…"


def _directory(data_directory: str) -> str:
    return os.path.join(integrations_directory(data_directory), "rolled-back")


def _path(data_directory: str, session: str) -> str:
    name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return os.path.join(_directory(data_directory), f"{name}.json")


def _sweep(directory: str) -> None:
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as listing:
        for item in listing:
            with contextlib.suppress(OSError):
                if item.stat(follow_symlinks=False).st_mtime < time.time() - _OVER:
                    os.unlink(item.path)
