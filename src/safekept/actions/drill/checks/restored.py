"""What a drill has before it: the home as it was restored, beside what the store says it should be."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, BinaryIO

from safekept.core.entries import Entry, Kind
from safekept.core.files.small import open_regular
from safekept.core.records import dataclass
from safekept.home.landing import Item, Root
from safekept.home.layout import Layout

from ..receipts import FAILED, LEFT_OUT, PASSED, UNKNOWN, Row

#: So many are named in a row; the receipt holds more of them.
_NAMED = 3
#: So many of one check are written into the receipt.
LISTED = 500

Problems = list[tuple[str, str]]  # path (or nothing) and what is wrong with it


@dataclass(slots=True)
class RestoredHome:
    """A home in scratch. `entries` are as stored, `items` as they were to land, both by path."""

    home: str
    layout: Layout
    entries: Mapping[str, Entry]
    items: Mapping[str, Item]
    roots: Sequence[Root]
    manifest: Mapping[str, Any] | None = None
    lost: dict[str, str] = field(default_factory=dict)  # what the store could not give
    #: Databases that came with a log, which is in them now, or whose indexes were rebuilt.
    folded: frozenset[str] = frozenset()
    root_mode: int | None = None  # of the home directory, where the store knows it
    unreadable: tuple[str, ...] = ()  # directories whose contents are unknown
    passed_over: int = 0  # files that a small drill did not restore
    exact_times: bool = True  # the filesystem of the scratch place keeps nanoseconds
    keeps_modes: bool = True  # and the rights of a file

    def full(self, path: str) -> str:
        """Where a path of the home lies in scratch."""
        item = self.items[path]
        return os.path.join(self.roots[item.root].base, item.place)

    def files(self) -> list[str]:
        """Every file that should be there, whether it is or not."""
        return [path for path, item in self.items.items() if item.kind is Kind.FILE]

    def there(self, path: str) -> bool:
        """Whether a file came back. A link is none: what it leads to was never stored, and may be root's."""
        if path in self.lost:
            return False
        try:
            return stat.S_ISREG(os.lstat(self.full(path)).st_mode)
        except OSError:
            return False

    def open(self, path: str) -> BinaryIO:
        """A file that came back, for reading. OSError for a link, too."""
        return os.fdopen(open_regular(self.full(path), follow=False), "rb")

    def in_the_dark(self, path: str) -> bool:
        """Whether a path would lie in a directory that cannot be read, so that it is unknown."""
        return any(not place or path == place or path.startswith(place + "/") for place in self.unreadable)

    @property
    def nothing_of(self) -> tuple[str, str]:
        """State and words of a row that found nothing to look at: none was stored, or none came back."""
        return (UNKNOWN, "none came back") if self.lost or self.unreadable else (LEFT_OUT, "none was stored")

    @property
    def scope(self) -> Mapping[str, Any]:
        """What was asked for when it was stored."""
        found = (self.manifest or {}).get("scope")
        return found if isinstance(found, Mapping) else {}

    def homes(self) -> list[str]:
        """The home and its profiles, as prefixes of paths: `""`, `profiles/coder/`."""
        layout = self.layout
        found = [""]
        if layout.profiles:
            names = {
                path.split("/")[1]
                for path in self.items
                if path.startswith(layout.profiles + "/") and path.count("/") >= 2
            }
            for name in sorted(names):
                prefix = f"{layout.profiles}/{name}/"
                if any(prefix + proof in self.items for proof in layout.profile_proof):
                    found.append(prefix)
        profile = self.scope.get("profile")
        return [f"{layout.profiles}/{profile}/"] if profile else found


@dataclass(slots=True)
class Findings:
    """Rows in their order, and everything that is wrong in each of them."""

    rows: list[Row] = field(default_factory=list)
    problems: dict[str, Problems] = field(default_factory=dict)

    def add(self, check: str, state: str, count: int = 0, text: str = "") -> None:
        self.rows.append(Row(check, state, count, text))

    def judge(self, check: str, count: int, problems: Problems, text: str, noun: str = "file") -> None:
        """A row that passed, or failed with what is wrong; `text` is what is reported where nothing is."""
        if not problems:
            self.add(check, PASSED, count, text)
            return
        self.problems[check] = problems
        of = f"{len(problems):,} of {plural(count, noun)}" if count else plural(len(problems), noun)
        self.add(check, FAILED, count, f"{of}: {named(problems)}")

    def fail(self, check: str, problems: Problems) -> None:
        """A row that failed, where a count of what was looked at would say nothing."""
        self.problems[check] = problems
        self.add(check, FAILED, len(problems), named(problems))

    def nothing(self, check: str, restored: RestoredHome) -> None:
        """A row that found nothing to look at."""
        state, text = restored.nothing_of
        self.add(check, state, 0, text)

    def facts(self) -> dict[str, object]:
        """For the receipt: more than a row can name."""
        return {
            check: [{"path": path, "reason": why} for path, why in found[:LISTED]]
            for check, found in self.problems.items()
        }


def named(problems: Problems) -> str:
    """The first few, in words."""
    text = "; ".join(f"`{path}`: {why}" if path else why for path, why in problems[:_NAMED])
    more = len(problems) - _NAMED
    return text + (f"; and {more:,} more" if more > 0 else "")


def plural(count: int, noun: str) -> str:
    """1 -> '1 file', 1200 -> '1,200 files'; also of entries and of indexes."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("x") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"
