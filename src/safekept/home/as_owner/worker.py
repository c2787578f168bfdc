"""Root's side: the doors of the home room, each as a question to the child that is the owner."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from safekept.core.entries import Entry, Remark, Source
from safekept.core.events import Listener, silent
from safekept.core.owner import Owner, OwnerChild, child_of, remark_from

from ..layout.layout import Layout
from ..scan.scanning import Scan, Selection
from .wire import Contents, entry_in, entry_out

if TYPE_CHECKING:
    from safekept.core.sqlite import CaptureOptions
    from safekept.core.sqlite.lean import LeanRequest

    from ..landing.landing import Landed
    from ..landing.plan import LandingPlan
    from ..landing.targets import Targets
    from ..layout.layout import Layout
    from ..scan.scanning import Selection


# A scan that the owner of the home does: the same Source, its entries and bytes over a pipe.


class OwnersScan(Scan):
    """Stands for a `Scan`. May be iterated more than once; each pass looks again."""

    ordered = False

    def __init__(
        self,
        child: OwnerChild,
        home: str,
        layout: Layout,
        selection: Selection,
        options: CaptureOptions,
        *,
        check: Callable[[str], bool] | None = None,
        lean: Callable[[str], LeanRequest | None] | None = None,
        listener: Listener = silent,
        **fields: Any,
    ) -> None:
        self.layout, self.selection = layout, selection
        self._child, self._listener = child, listener
        self._handlers: dict[str, Any] = {}
        if check is not None:
            self._handlers["check"] = lambda path: (check(path), b"")
        if lean is not None:
            self._handlers["lean"] = lambda path: (lean(path), b"")
        fields |= {"check": check is not None, "lean": lean is not None}
        (number, self.home), _ = self._ask("scan", home, layout, selection, options, fields)
        self._number = int(number)
        self._remarks: list[Remark] = []

    def _ask(self, name: str, *arguments: object) -> tuple[Any, bytes]:
        return self._child.ask(name, *arguments, handlers=self._handlers, listener=self._listener)

    @property
    def remarks(self) -> list[Remark]:
        return self._remarks

    def external(self) -> dict[str, str]:
        answer, _ = self._ask("external", self._number)
        return {str(prefix): str(place) for prefix, place in answer.items()}

    def census(self) -> dict[str, dict[str, int | None]]:
        answer, _ = self._ask("census", self._number)
        return {str(name): _counts(counts) for name, counts in answer.items()}

    def blank(self) -> dict[str, tuple[str, ...]]:
        answer, _ = self._ask("blank", self._number)
        return {str(path): tuple(map(str, names)) for path, names in answer.items()}

    def answers(self) -> dict[str, int | None]:
        return _counts(self._ask("answers", self._number)[0])

    def measure(self) -> tuple[int, int]:
        files, size = self._ask("measure", self._number)[0]
        return int(files), int(size)

    def __iter__(self) -> Iterator[Entry]:
        for group in self.groups():
            yield from group

    def groups(self) -> Generator[list[Entry]]:
        first = True
        while True:
            answer, _ = self._ask("next", self._number, first)
            first = False
            for group in answer["groups"]:
                yield [entry_in(one, self._ask, self._number) for one in group]
            if not answer["groups"]:
                self._remarks = [remark_from(one) for one in answer["remarks"]]
                return


def _counts(document: Mapping[str, Any]) -> dict[str, int | None]:
    return {str(name): None if one is None else int(one) for name, one in document.items()}


_SERVER = "safekept.home.as_owner.server"
_TOGETHER = 500


class Worker:
    """The child of one owner."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._child = child_of(owner, _SERVER)

    def do(self, function: str, *arguments: object, **named: object) -> Any:
        """One of the functions that `server.py` lists."""
        return self._child.ask("do", function, list(arguments), named)[0]

    def scan(
        self, home: str, layout: Layout, selection: Selection, options: CaptureOptions, **fields: Any
    ) -> OwnersScan:
        return OwnersScan(self._child, home, layout, selection, options, **fields)

    def plan_landing(
        self,
        source: Source,
        targets: Targets,
        layout: Layout,
        exact: bool,
        only: Sequence[str],
        spare: Callable[[str], bool],
        damaged: Collection[str] = (),
    ) -> LandingPlan:
        from .wire import plan_in

        given = _Given(source)
        handlers = {**given.handlers, "spare": lambda session, path: (spare(path), b"")}
        arguments = (source.ordered, targets, layout, exact, tuple(only), tuple(damaged))
        (number, answer), _ = self._child.ask("plan", *arguments, handlers=handlers)
        plan = plan_in(answer, exact, layout)
        plan.owners = OwnersLanding(self, int(number))
        return plan

    def undo(self, home: str, operation: str, deadline: float) -> Landed:
        from .wire import landed_in

        return landed_in(self.do("undo", home, operation, deadline))

    def land(self, number: int, source: Source, listener: Listener, named: Mapping[str, Any]) -> Landed:
        from .wire import landed_in

        given = _Given(source)
        try:
            answer, _ = self._child.ask(
                "land", number, dict(named), handlers=given.handlers, listener=listener
            )
        finally:
            given.contents.close_all()
        self._child.ask("done", number)
        return landed_in(answer)


class OwnersLanding:
    """A plan that the owner's child made and will carry out."""

    def __init__(self, worker: Worker, number: int) -> None:
        self.worker, self.number = worker, number

    def land(self, source: Source, listener: Listener = silent, **named: Any) -> Landed:
        return self.worker.land(self.number, source, listener, named)


class _Given:
    """Gives a source of root's to the child: entries in turn, bytes as they are asked for."""

    def __init__(self, source: Source) -> None:
        self.source, self.contents = source, Contents()
        self._entries: dict[int, Entry] = {}
        self._coming: Iterator[Entry] = iter(())
        self._count = 0
        self._together = 1 if source.ordered else _TOGETHER

    @property
    def handlers(self) -> dict[str, Any]:
        return {
            "begin": self._begin,
            "more": self._more,
            "open": lambda session, number: self.contents.open(self._entries[number]),
            "read": lambda session, content: self.contents.read(content),
            "close": lambda session, content: self.contents.close(content),
        }

    def _begin(self, session: int) -> tuple[Any, bytes]:
        self._entries, self._coming = {}, iter(self.source)
        return None, b""

    def _more(self, session: int) -> tuple[Any, bytes]:
        found = []
        if self.source.ordered:
            self._entries = {}
        for entry in self._coming:
            self._count += 1
            self._entries[self._count] = entry
            found.append(entry_out(entry, self._count))
            if len(found) >= self._together:
                break
        return found, b""
