"""Any snapshot or checkpoint as a tree: directories a page at a time, files as text, versions of a file."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar
from urllib.parse import quote

from markupsafe import Markup
from starlette.responses import Response, StreamingResponse

from safekept.actions.page.events import CHECKPOINTS, EventRequest, events
from safekept.actions.page.sections import delimiter_of, sections_of
from safekept.actions.projects.contents import PointEntry, PointFile, opened_point
from safekept.actions.projects.points import names_a_point
from safekept.actions.snapshots.choosing import latest
from safekept.actions.snapshots.contents import Opened, StoredFile, look, opened
from safekept.actions.snapshots.listing import list_home
from safekept.actions.vault.opening import open_vault
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.vault.format import Node

from ..markdown import is_markdown, markdown
from ..visit import Visit
from .places import choices, home_of, place_of

#: Names on one page.
PER_PAGE = 200
#: Checkpoints that a page offers to choose from; the timeline has the rest.
_OTHERS = 60
#: Letters of a file that a page shows.
MOST_TEXT = 150_000
#: Pictures that are shown; they are sent as what they are, and as nothing that could hold a script.
PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_LARGEST_PICTURE = 8 << 20
Named = TypeVar("Named", Node, PointEntry)


class NotForDownload(SafekeptError):
    code = "not-for-download"


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """One name in a directory."""

    name: str
    path: str
    kind: str  # "dir", "file", "symlink", or another
    size: int
    when: float
    target: str = ""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """One file."""

    path: str
    size: int
    when: float
    text: str | None
    cut: bool = False
    secret: bool = False
    picture: bool = False
    tables: Sequence[tuple[str, object]] = ()
    target: str = ""
    sections: Sequence[str] = ()  # entries of a memory
    prose: Markup | None = None  # Markdown, with its structure


def show(visit: Visit) -> Response:
    """A directory, or a file."""
    place = place_of(visit)
    return _project(visit) if place.kind == "project" else _home(visit)


def _home(visit: Visit) -> Response:
    place, path = home_of(visit), (visit.asked("path") or visit.asked_name("at")).strip("/")
    with opened(visit.context, place, _snapshot(visit, place.home)) as found:
        if path and visit.asked("place") and found.stored.source.node(path) is None:
            path = ""  # another home or time was chosen, which has no such place
        seen = look(found, path or ".")
        chosen = found.chosen
        values: dict[str, object] = {
            "point": {"id": chosen.id, "short": chosen.short, "time": chosen.snapshot.time_ns / 1e9},
            "noun": "Snapshot",
            "about": {"home": place.home, "id": chosen.id},
            "others": [
                {"id": one.id, "short": one.short, "time": one.snapshot.time_ns / 1e9, "kind": one.kind}
                for one in found.listing.of_home[:200]
            ],
        }
        if isinstance(seen, StoredFile):
            return _page(visit, values, path, _stored(found, seen))

    def entry(one: Node) -> ShownEntry:
        when = one.mtime_ns / 1e9
        return ShownEntry(one.name, _joined(path, one.name), one.type, one.size, when, one.target or "")

    return _directory(visit, values, path, seen, lambda one: one.type == "dir", entry)


def _snapshot(visit: Visit, home: str) -> str:
    """The snapshot that was asked for; the newest where none was, or where that is one of another home."""
    word = visit.asked("id")
    with open_vault(visit.context) as repository:
        listing = list_home(repository, home)
    if word and not (visit.asked("place") and word not in {one.id for one in listing.all}):
        return word
    return latest(listing).id


def _stored(found: Opened, seen: StoredFile) -> ShownFile:
    secret = found.stored.layout.secret(seen.path)
    tables: list[tuple[str, object]] = []
    if seen.database is not None:
        rows = seen.database.get("counts")
        tables = sorted(rows.items()) if isinstance(rows, dict) else [("state", seen.database.get("state"))]
    return _file(
        seen.path,
        seen.node.size,
        seen.node.mtime_ns,
        None if secret else seen.text,
        secret=secret,
        tables=tables,
        target=seen.node.target or "",
        delimiter=delimiter_of(found.stored.layout, seen.path),
    )


def _file(
    path: str,
    size: int,
    mtime_ns: int,
    text: str | None,
    *,
    secret: bool = False,
    tables: Sequence[tuple[str, object]] = (),
    target: str = "",
    delimiter: str = "",
) -> ShownFile:
    picture = os.path.splitext(path)[1].lower() in PICTURES and size <= _LARGEST_PICTURE and not secret
    cut = text is not None and len(text) > MOST_TEXT
    shown = text[:MOST_TEXT] if text is not None else None
    sections = sections_of(shown, delimiter) if shown and delimiter else []
    prose = markdown(shown) if shown and not sections and is_markdown(path) else None
    if shown and path.lower().endswith(".json") and not cut:
        shown = _indented(shown)
    return ShownFile(path, size, mtime_ns / 1e9, shown, cut, secret, picture, tables, target, sections, prose)


def _indented(text: str) -> str:
    """JSON that stands on one line, so that a person can read it; anything else as it is."""
    if text.count("\n") > 1:
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _project(visit: Visit) -> Response:
    place, word = place_of(visit), visit.asked("id")
    path = (visit.asked("path") or visit.asked_name("at")).strip("/")
    request = EventRequest(project=place.path, most=_OTHERS, group=CHECKPOINTS)
    newest = events(visit.context, request).events
    if not word or not names_a_point(word) or (visit.asked("place") and not _has(visit, word)):
        word = newest[0].id if newest else word or "1"
    with opened_point(visit.context, place.path, word) as found:
        if path and visit.asked("place") and not found.has(path):
            path = ""  # another project or time was chosen, which has no such place
        seen, point = found.look(path), found.point
    others = [{"id": one.id, "short": one.id, "time": one.time, "kind": one.detail[:60]} for one in newest]
    if point.id not in {one.id for one in newest}:
        own = {"id": point.id, "short": point.short, "time": point.time_ns / 1e9, "kind": point.reason[:60]}
        others.append(own)
    values: dict[str, object] = {
        "point": {"id": point.id, "short": point.short, "time": point.time_ns / 1e9},
        "noun": "Checkpoint",
        "about": {"project": place.path, "id": point.id},
        "others": others,
    }
    if isinstance(seen, PointFile):
        return _page(visit, values, path, _file(path, seen.state.size, seen.state.mtime_ns, seen.text))

    def entry(one: PointEntry) -> ShownEntry:
        kind = "dir" if one.kind == "directory" else one.kind
        return ShownEntry(one.name, _joined(path, one.name), kind, one.size, one.mtime_ns / 1e9)

    return _directory(visit, values, path, seen, lambda one: one.kind == "directory", entry)


def _has(visit: Visit, word: str) -> bool:
    """Whether the project that was chosen has this checkpoint; it may be one of the project before."""
    with contextlib.suppress(SafekeptError), opened_point(visit.context, place_of(visit).path, word):
        return True
    return False


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _common(visit: Visit, values: dict[str, object], path: str) -> dict[str, object]:
    parts = path.split("/") if path else []
    crumbs = [("/".join(parts[: number + 1]), part) for number, part in enumerate(parts)]
    return {**values, "path": path, "crumbs": crumbs, **choices(visit)}


def _page(visit: Visit, values: dict[str, object], path: str, file: ShownFile) -> Response:
    return visit.page("file.html", os.path.basename(path), {**_common(visit, values, path), "file": file})


def _directory(
    visit: Visit,
    values: dict[str, object],
    path: str,
    seen: Sequence[Named],
    is_directory: Callable[[Named], bool],
    entry: Callable[[Named], ShownEntry],
) -> Response:
    """A page of its names, directories first. Of the others nothing is made."""
    named = visit.asked("name")[:100].casefold()
    chosen = [one for one in seen if named in one.name.casefold()] if named else seen
    chosen = sorted(chosen, key=lambda one: (not is_directory(one), one.name.casefold(), one.name))
    pages = max(1, -(-len(chosen) // PER_PAGE))
    number = min(max(1, visit.number("page", 1, 1_000_000)), pages)
    more = {
        "rows": [entry(one) for one in chosen[(number - 1) * PER_PAGE : number * PER_PAGE]],
        "count": len(chosen),
        "number": number,
        "pages": pages,
        "named": visit.asked("name"),
    }
    return visit.page("browse.html", "Browse", {**_common(visit, values, path), **more})


def download(visit: Visit) -> Response:
    """The bytes of one file, as a file to keep; a picture also to be seen."""
    path = visit.asked("path").strip("/")
    name = os.path.basename(path)
    kind = PICTURES.get(os.path.splitext(path)[1].lower()) if visit.asked("show") else None
    chunks = _project_chunks(visit, path) if place_of(visit).kind == "project" else _home_chunks(visit, path)
    first = next(chunks, b"")  # what is wrong is said before anything was sent
    disposition = (
        "inline" if kind else f"attachment; filename*=UTF-8''{quote(name, safe='', errors='surrogateescape')}"
    )
    headers = {
        "Content-Disposition": disposition,
        # Even if a browser were to take it for a page, it could do nothing and belongs to no origin.
        "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
    }
    return StreamingResponse(
        _joining(first, chunks), media_type=kind or "application/octet-stream", headers=headers
    )


def _joining(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _home_chunks(visit: Visit, path: str) -> Iterator[bytes]:
    with opened(visit.context, home_of(visit), visit.asked("id")) as found:
        source = found.stored.source
        node = source.node(path)
        if node is None or node.type != "file" or found.stored.layout.secret(path):
            raise NotForDownload(
                f"`{path}` cannot be downloaded here: it is a secret, or no file",
                kept="Nothing was sent",
                next_steps=(NextStep("restore", (path,), before="Bring it back into its place instead:"),),
            )
        with source.content(path, node) as content:
            yield from content.chunks()


def _project_chunks(visit: Visit, path: str) -> Iterator[bytes]:
    with opened_point(visit.context, place_of(visit).path, visit.asked("id")) as found:
        yield from found.chunks(path)
