"""Entries, contents and plans as plain data, for the way between root and the child that is the owner.

What comes from the child is checked on arrival: root takes it for what a stranger says.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import repeat
from typing import Any

from safekept.core.entries import ZEROS, Content, DatabaseFacts, Entry, Kind, Remark
from safekept.core.owner import remark_from

from ..landing.items import Item
from ..landing.landing import Landed
from ..landing.plan import LandingPlan
from ..landing.record import Root
from ..landing.removals import Removals
from ..layout.layout import Layout

#: Asks the other side: a name and arguments in, a plain value and bytes out.
Ask = Callable[..., tuple[Any, bytes]]


#: A hole in one answer; the caller wants to hear now and then that there is progress.
_LONGEST_HOLE = 64 << 30


class BadWord(ValueError):
    """The other side said something that it cannot have meant."""


def status_out(status: os.stat_result | None) -> list[int] | None:
    if status is None:
        return None
    return [*status[:7], status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns]


def status_in(document: Any) -> os.stat_result | None:
    if document is None:
        return None
    numbers = [int(one) for one in document]
    if len(numbers) != 10:
        raise BadWord("a status of another length")
    times = numbers[7:]
    named = dict(zip(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), times, strict=True))
    return os.stat_result((*numbers[:7], *(one // 1_000_000_000 for one in times)), named)


def entry_out(entry: Entry, number: int) -> list[Any]:
    return [
        number,
        entry.path,
        entry.kind.value,
        entry.mode,
        entry.mtime_ns,
        entry.size,
        entry.target,
        entry.sha256,
        entry.database,
        entry.left_out,
        status_out(entry.status),
        [status_out(one) for one in entry.beside],
        entry.known is not None,
        entry.holes,
    ]


def entry_in(document: Any, ask: Ask, session: int) -> Entry:
    number, path, kind, mode, mtime_ns, size, target, digest, database, left_out, status, beside, *more = (
        document
    )
    number, path, (known, holes) = int(number), str(path), more
    _check_name(path)
    return Entry(
        path,
        Kind(kind),
        int(mode) & 0o7777,
        int(mtime_ns),
        max(int(size), 0),
        str(target),
        str(digest),
        bool(database),
        lambda: RemoteContent(ask, session, number),
        status_in(status),
        tuple(status_in(one) for one in beside),
        int(left_out),
        (lambda facts: bool(ask("known", session, number, facts_out(facts))[0])) if known else None,
        holes=min(max(int(holes), 0), max(int(size), 0)),
    )


def _check_name(path: str) -> None:
    """A name that leads nowhere else. The home itself is the empty one."""
    if path and (path.startswith("/") or "\0" in path or {"", ".", ".."} & set(path.split("/"))):
        raise BadWord(f"a name that leads elsewhere: {path!r}")


def facts_out(facts: DatabaseFacts | None) -> dict[str, Any] | None:
    if facts is None:
        return None
    return {one.name: getattr(facts, one.name) for one in fields(DatabaseFacts)}


def facts_in(document: Any) -> DatabaseFacts | None:
    if document is None:
        return None
    counts = {str(name): None if one is None else int(one) for name, one in document["counts"].items()}
    lean = document["lean"] if isinstance(document["lean"], dict) else None
    state, method, detail = (str(document[name]) for name in ("state", "method", "detail"))
    return DatabaseFacts(state, method, detail, int(document["page_size"]), counts, lean)


class RemoteContent(Content):
    """Bytes that the other side reads out piece by piece, as they are asked for."""

    def __init__(self, ask: Ask, session: int, number: int) -> None:
        super().__init__()
        self._ask, self._session = ask, session
        answer, self._first = ask("open", session, number)
        self._content = int(answer["content"])
        self._ended = False
        self.size, self.mtime_ns = int(answer["size"]), int(answer["mtime_ns"])
        self.database = facts_in(answer["database"])
        self._zeros = int(answer["zeros"])
        self._note_end(answer)

    def chunks(self) -> Iterator[bytes]:
        left, zeros, piece = self.size, self._zeros, self._first
        self._first, self._zeros = b"", 0
        while True:
            left -= zeros + len(piece)
            if left < 0 or zeros < 0 or zeros % len(ZEROS):
                raise BadWord("other bytes than were announced")
            yield from repeat(ZEROS, zeros // len(ZEROS))
            if piece:
                yield piece
            if self._ended:
                return
            answer, piece = self._ask("read", self._session, self._content)
            zeros = int(answer["zeros"])
            self._note_end(answer)

    def close(self) -> None:
        if not self._ended:
            self._ended = True
            self._ask("close", self._session, self._content)

    def _note_end(self, answer: Mapping[str, Any]) -> None:
        if answer["ended"]:
            self._ended = True
            self.remarks += [remark_from(one) for one in answer["remarks"]]
            self.database = facts_in(answer["database"])


class Contents:
    """The side that reads: open contents by number, each given out in pieces."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Content, Iterator[bytes]]] = {}
        self._count = 0

    def open(self, entry: Entry) -> tuple[dict[str, Any], bytes]:
        content = entry.open()
        self._count += 1
        number = self._count
        self._open[number] = (content, content.chunks())
        answer, piece = self.read(number)
        size, mtime_ns = content.size, content.mtime_ns
        if not answer["ended"] and len(piece) + answer["zeros"] >= size:
            # Most files are one piece: that it was the last one need not be asked for.
            answer = {**self.read(number)[0], "zeros": answer["zeros"]}
        return {**answer, "content": number, "size": size, "mtime_ns": mtime_ns}, piece

    def read(self, number: int) -> tuple[dict[str, Any], bytes]:
        """A hole, told by its length, and the piece after it: a terabyte of nothing is a few questions."""
        content, chunks = self._open[number]
        zeros = 0
        try:
            piece = next(chunks, None)
            while piece is ZEROS:
                zeros += len(ZEROS)
                piece = next(chunks, None) if zeros < _LONGEST_HOLE else b""
        except BaseException:
            self.close(number)
            raise
        answer: dict[str, Any] = {"ended": piece is None, "zeros": zeros, "remarks": []}
        if piece is None:
            answer["remarks"] = [remark.as_dict() for remark in content.remarks]
            self.close(number)
        answer["database"] = facts_out(content.database)
        return answer, b"" if piece is None else bytes(piece)

    def close(self, number: int) -> tuple[None, bytes]:
        if (found := self._open.pop(number, None)) is not None:
            found[0].close()
        return None, b""

    def close_all(self) -> None:
        for number in list(self._open):
            self.close(number)


def remarks_out(remarks: list[Remark]) -> list[dict[str, object]]:
    return [remark.as_dict() for remark in remarks]


# The plan of a landing on its way from the owner's child to root, who shows it and asks.

_LISTS = (
    "create",
    "replace",
    "compared",
    "same",
    "kept",
    "damaged",
    "closed",
    "remove",
    "outside",
    "executable",
    "links",
    "mounts",
)
_NUMBERS = ("bytes", "needed", "free")
_COUNTS = ("created", "replaced", "removed", "same", "kept", "bytes")


def plan_out(plan: LandingPlan) -> dict[str, Any]:
    return {
        **{name: getattr(plan, name) for name in (*_LISTS, *_NUMBERS)},
        "home": plan.home,
        "only": list(plan.only),
        "held": [list(one) for one in plan.held],
        "shorter": [list(one) for one in plan.shorter.items()],
        "unseen": [list(one) for one in plan.unseen],
        "roots": [[root.label, root.base, root.name] for root in plan.roots],
        "items": [
            [
                item.path,
                item.root,
                item.place,
                item.kind.value,
                item.mode,
                item.size,
                item.sidecar,
                item.left_out,
            ]
            for item in plan.items.values()
        ],
    }


def plan_in(document: Any, exact: bool, layout: Layout) -> LandingPlan:
    """The same for showing and asking; it is carried out by the child that made it."""
    plan = LandingPlan(str(document["home"]), exact, tuple(map(str, document["only"])), layout=layout)
    for name in _LISTS:
        setattr(plan, name, [str(one) for one in document[name]])
    for name in _NUMBERS:
        setattr(plan, name, int(document[name]))
    plan.held = [(str(path), str(holder)) for path, holder in document["held"]]
    plan.shorter = {str(path): int(size) for path, size in document["shorter"]}
    plan.roots = [Root(*map(str, root)) for root in document["roots"]]
    unseen = [(str(path), str(reason)) for path, reason in document["unseen"]]
    plan.removals = Removals(files=list(plan.remove), unseen=unseen)
    for path, root, place, kind, mode, size, sidecar, left_out in document["items"]:
        item = Item(str(path), int(root), str(place), Kind(kind), int(mode), 0, int(size))
        item.sidecar, item.left_out = bool(sidecar), int(left_out)
        plan.items[item.path] = item
    return plan


def landed_in(document: Any) -> Landed:
    return Landed(
        operation=str(document["operation"]),
        home=str(document["home"]),
        seconds=float(document["seconds"]),
        replaced_in=str(document["replaced_in"]),
        undoes=str(document["undoes"]),
        remarks=[remark_from(one) for one in document["remarks"]],
        timings={str(name): float(one) for name, one in document["timings"].items()},
        **{name: int(document[name]) for name in _COUNTS},
    )
