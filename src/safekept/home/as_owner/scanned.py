"""A scan that the owner of the home does: the same Source, its entries and bytes over a pipe."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from safekept.core.entries import Entry, Remark
from safekept.core.events import Listener, silent
from safekept.core.owner import OwnerChild, remark_from

from ..scan.scanning import Scan, Selection
from .wire import entry_in

if TYPE_CHECKING:
    from safekept.core.sqlite import CaptureOptions
    from safekept.core.sqlite.lean import LeanWish

    from ..layout.layout import Layout


class OwnersScan(Scan):
    """Stands for a `Scan`. May be iterated more than once; each pass looks anew."""

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
        lean: Callable[[str], LeanWish | None] | None = None,
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
        said, _ = self._ask("external", self._number)
        return {str(prefix): str(place) for prefix, place in said.items()}

    def census(self) -> dict[str, dict[str, int | None]]:
        said, _ = self._ask("census", self._number)
        return {str(name): _counts(counts) for name, counts in said.items()}

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
            said, _ = self._ask("next", self._number, first)
            first = False
            for group in said["groups"]:
                yield [entry_in(one, self._ask, self._number) for one in group]
            if not said["groups"]:
                self._remarks = [remark_from(one) for one in said["remarks"]]
                return


def _counts(said: Mapping[str, Any]) -> dict[str, int | None]:
    return {str(name): None if one is None else int(one) for name, one in said.items()}
