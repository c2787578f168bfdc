"""Unified diffs as rows for a page: what went and what came, with the words that differ marked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

from markupsafe import Markup, escape

from safekept.core.records import dataclass
from safekept.core.spelling import shown

#: Lines that a page shows; a screen is no place for more.
MOST_LINES = 600
#: Lines and letters beyond which no words are compared.
_LONGEST_PAIR, _LONGEST_LINE = 40, 400
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
_KINDS = {"+": "add", "-": "del", "@": "place", "#": "note", "(": "note"}
_SAID = {"add": "added: ", "del": "removed: "}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One row. `said` is what a screen reader hears before it."""

    kind: str  # add, del, place, note, head or same
    text: Markup
    said: str = ""


@dataclass(frozen=True, slots=True)
class DiffRows:
    """A whole diff, as far as it is shown."""

    lines: tuple[DiffLine, ...]
    added: int
    removed: int
    left_out: int = 0


def diff_rows(lines: Iterable[str], most: int = MOST_LINES, *, one_file: bool = False) -> DiffRows:
    """Rows of a unified diff. `one_file`: its name stands above it already."""
    every = [line for line in lines if not (one_file and line.startswith(("--- ", "+++ ")))]
    kept = every[:most]
    rows = tuple(_rows(kept))
    added = sum(1 for line in every if line.startswith("+") and not line.startswith("+++"))
    removed = sum(1 for line in every if line.startswith("-") and not line.startswith("---"))
    return DiffRows(rows, added, removed, len(every) - len(kept))


def _rows(lines: list[str]) -> Iterator[DiffLine]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith(("--- ", "+++ ")):
            yield DiffLine("head", _text(line))
            at += 1
            continue
        gone = _run(lines, at, "-")
        came = _run(lines, at + len(gone), "+") if gone else []
        if gone and came and len(gone) == len(came) <= _LONGEST_PAIR:
            pairs = [_marked(one[1:], two[1:]) for one, two in zip(gone, came, strict=True)]
            yield from (DiffLine("del", Markup("-") + before, _SAID["del"]) for before, _ in pairs)
            yield from (DiffLine("add", Markup("+") + after, _SAID["add"]) for _, after in pairs)
            at += len(gone) + len(came)
            continue
        kind = _KINDS.get(line[:1], "same")
        yield DiffLine(kind, _text(line), _SAID.get(kind, ""))
        at += 1


def _run(lines: list[str], at: int, sign: str) -> list[str]:
    found = []
    while at < len(lines) and lines[at].startswith(sign) and not lines[at].startswith(sign * 3 + " "):
        found.append(lines[at])
        at += 1
    return found


def _marked(before: str, after: str) -> tuple[Markup, Markup]:
    if max(len(before), len(after)) > _LONGEST_LINE:
        return _text(before), _text(after)
    one, two = _WORDS.findall(before), _WORDS.findall(after)
    left, right = list[Markup](), list[Markup]()
    for how, a, b, c, d in difflib.SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        for parts, words in ((left, "".join(one[a:b])), (right, "".join(two[c:d]))):
            if words:
                parts.append(
                    _text(words) if how == "equal" else Markup("<mark>{}</mark>").format(_text(words))
                )
    return Markup("").join(left), Markup("").join(right)


def _text(line: str) -> Markup:
    return escape("\t".join(map(shown, line.split("\t"))))
