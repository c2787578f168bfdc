"""The census: the counts that make loss visible.

Counted while content is read for another purpose, so it costs no second read, and databases
answer in the very state that is stored. What could not be counted is None, never 0: a zero means
that there is nothing, and falling to zero is an alarm. Consumers may read from several threads.

A file that should last and holds nothing counts as none; every other file of a class that holds nothing is
named, so that one that was emptied is noticed whatever the counts say.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from safekept.core.agents import compose, leaves, members
from safekept.core.entries import DatabaseFacts
from safekept.core.records import dataclass

from .layout.layout import Layout
from .layout.rules import FILE, Count

#: A document beyond this is not counted: no real one comes near, and parsing it would cost memory.
LARGEST = 8 << 20
#: What a file may consist of that holds nothing: lost pages are zeros, and some editors leave a line behind.
_NOTHING = b"\0 \r\n\t"
#: How documents are counted. Answers of an earlier way are asked for again.
_WAY = 2


def is_blank(data: bytes) -> bool:
    """Whether there is nothing in it: no byte, or zeros and blank lines only."""
    return not data[:64].strip(_NOTHING) and not data.strip(_NOTHING)


@dataclass(slots=True)
class _Tally:
    expected: int = 0  # files selected
    counted: int = 0  # files whose content was seen
    total: int = 0
    broken: bool = False
    documents: list[bytes] = field(default_factory=list)  # parsed at the end, off the path of the work
    captures: list[Callable[[], DatabaseFacts | None]] = field(default_factory=list)


class Census:
    """Gathers counts per profile while a scan's content is consumed."""

    def __init__(self, layout: Layout, answers: Mapping[str, int | None] | None = None) -> None:
        """`answers` are those of an earlier census: a document that says the same is not parsed again."""
        self._layout = layout
        self._earlier = answers or {}
        self.answers: dict[str, int | None] = {}  # what this one found in documents, for a later one
        self.blank: dict[str, tuple[str, ...]] = {}  # files that hold nothing -> the classes that count them
        self._lock = threading.Lock()
        self._profiles: dict[str, dict[str, _Tally]] = {}
        self._unknown: set[str] = set()  # classes that this selection does not cover

    def profile(self, name: str) -> None:
        """Make a profile appear, also when nothing in it is counted."""
        with self._lock:
            self._tallies(name)

    def uncovered(self, count: Count) -> None:
        """The selection leaves out (some of) what this class counts."""
        self._unknown.add(count.name)

    def broken(self, profile: str, count: Count) -> None:
        """Something that this class counts in a profile cannot be read."""
        with self._lock:
            self._tallies(profile)[count.name].broken = True

    def expect(self, profile: str, counts: tuple[Count, ...]) -> None:
        """A file that these classes count was selected."""
        with self._lock:
            for count in counts:
                self._tallies(profile)[count.name].expected += 1

    def gone(self, profile: str, counts: tuple[Count, ...]) -> None:
        """It vanished before it was read, so there is nothing to count."""
        with self._lock:
            for count in counts:
                self._tallies(profile)[count.name].expected -= 1

    def plain(
        self, profile: str, counts: tuple[Count, ...], data: bytes | None, *, path: str = "", size: int = 0
    ) -> None:
        """Its content; None where it is too large to be looked at, or is known from before.

        `path`: a file of a live home, to be named if it holds nothing.
        """
        with self._lock:
            blank = bool(path) and self._is_blank(path, data, size)
            if blank and not any(count.kind == "query" for count in counts):
                self.blank[path] = tuple(count.name for count in counts)
            for count in counts:
                tally = self._tallies(profile)[count.name]
                tally.counted += 1
                if count.by_name:
                    tally.total += not (blank and count.kind == FILE)
                elif data is None or count.kind == "query":
                    tally.broken = True
                else:
                    tally.documents.append(data)

    def captured(
        self, profile: str, counts: tuple[Count, ...], facts: Callable[[], DatabaseFacts | None]
    ) -> None:
        """A database whose answers will be there once its content was taken."""
        with self._lock:
            for count in counts:
                tally = self._tallies(profile)[count.name]
                tally.counted += 1
                if count.by_name:
                    tally.total += 1
                elif count.kind == "query":
                    tally.captures.append(facts)
                else:
                    tally.broken = True

    def result(self) -> dict[str, dict[str, int | None]]:
        """Counts per profile: `{"default": {"sessions": 12, …}, "profiles/coder": {…}}`."""
        with self._lock:
            return {
                profile: {
                    count.name: self._total(tallies[count.name], count) for count in self._layout.counts
                }
                for profile, tallies in sorted(self._profiles.items())
            }

    def _tallies(self, profile: str) -> dict[str, _Tally]:
        if profile not in self._profiles:
            self._profiles[profile] = {count.name: _Tally() for count in self._layout.counts}
        return self._profiles[profile]

    def _is_blank(self, path: str, data: bytes | None, size: int) -> bool:
        if not size:
            return True
        note = f"blank {path}"  # one that is not read again is what it was
        blank = is_blank(data) if data is not None else note in self._earlier
        if blank:
            self.answers[note] = 0
        return blank

    def _document(self, data: bytes, count: Count) -> int | None:
        question = _question(data, count)
        if question not in self.answers:
            known = question in self._earlier
            self.answers[question] = self._earlier[question] if known else count_document(data, count)
        return self.answers[question]

    def _total(self, tally: _Tally, count: Count) -> int | None:
        if tally.broken or count.name in self._unknown or tally.counted != tally.expected:
            return None
        answers = [self._document(data, count) for data in tally.documents]
        for found in tally.captures:
            facts = found()
            answers.append(facts.counts.get(count.name) if facts else None)
        known = [answer for answer in answers if answer is not None]
        return tally.total + sum(known) if len(known) == len(answers) else None


def _question(data: bytes, count: Count) -> str:
    asked = hashlib.sha256(repr((_WAY, count.kind, count.delimiter, count.key)).encode()).hexdigest()[:16]
    return f"{asked} {hashlib.sha256(data).hexdigest()}"


def count_document(data: bytes, count: Count) -> int | None:
    """How many things one text, JSON or YAML document holds; None if it is not understood."""
    if count.kind != "sections" and is_blank(data):
        return 0
    try:
        text = data.decode("utf-8-sig")
        if count.kind == "sections":
            sections = text.replace("\r\n", "\n").split(count.delimiter)
            return sum(1 for section in sections if section.strip())
        if count.kind == "json":
            return _count_json(json.loads(text), count.key)
        return _count_yaml(text, count.kind == "yaml-sections")
    except (ValueError, RecursionError):
        return None


def _count_json(document: Any, key: str) -> int | None:
    if key and isinstance(document, dict) and document:
        document = document.get(key, "")
    if document is None:
        return 0
    return len(document) if isinstance(document, list | dict) else None


def _count_yaml(text: str, sections: bool) -> int | None:
    root = compose(text)
    if root is None:
        return 0
    top = members(root)
    if top is None:
        return None
    return len(top) if sections else leaves(root)
