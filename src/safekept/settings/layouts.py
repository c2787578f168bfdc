"""The layouts of this user, read when somebody asks for one: many commands never do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from safekept.home.layout import Layout


class LayoutsOnDemand(Mapping[str, "Layout"]):
    """As if they were all read at the start; a bad one is an error at the first use."""

    def __init__(self, directories: tuple[str, ...]) -> None:
        self._directories = directories

    @cached_property
    def _loaded(self) -> Mapping[str, Layout]:
        from safekept.home.layout import load_layouts

        return load_layouts(self._directories)

    def __getitem__(self, name: str) -> Layout:
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)
