"""The layouts of this user, read when somebody asks for one: many commands never do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from safekept.core.agents.homes import HomePlace, read_home_places

if TYPE_CHECKING:
    from safekept.home.layout import Layout

Value = TypeVar("Value")


class OnDemand(Mapping[str, Value]):
    """As if all of it were read at the start; a bad file is an error at the first use."""

    def __init__(self, load: Callable[[], Mapping[str, Value]]) -> None:
        self._load = load

    @cached_property
    def _loaded(self) -> Mapping[str, Value]:
        return self._load()

    def __getitem__(self, name: str) -> Value:
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)


def layouts_on_demand(directories: tuple[str, ...]) -> Mapping[str, Layout]:
    """Those that come with safekept, and those in these directories."""

    def load() -> Mapping[str, Layout]:
        from safekept.home.layout import load_layouts

        return load_layouts(directories)

    return OnDemand(load)


def home_places_on_demand(directories: tuple[str, ...]) -> Mapping[str, HomePlace]:
    """Where the homes of the same layouts are, and nothing else of them."""
    return OnDemand(lambda: read_home_places(directories))
