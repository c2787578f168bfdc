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
_PLACES = re.compile(r"^@@ -(\S+) \+(\S+) @@")
#: A note of what differs beside the lines: `# a.sh: file 0644 -> file 0755`, `(12 -> 14 bytes)`.
_BOTH = re.compile(r"^(# .*(?:: |\())(\w+ \d{4}|\d+) -> (\w+ \d{4}|\d+)((?: bytes\))?)$")
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
    every = list(lines)
    heads = _heads(every)
    if one_file:
        every, heads = [line for at, line in enumerate(every) if at not in heads], set()
    rows = tuple(_rows(every[:most], heads))
    added = sum(1 for at, line in enumerate(every) if line.startswith("+") and at not in heads)
    removed = sum(1 for at, line in enumerate(every) if line.startswith("-") and at not in heads)
    return DiffRows(rows, added, removed, max(0, len(every) - most))


def backwards(lines: Iterable[str]) -> list[str]:
    """What changed since, told as what going back does: what goes is removed, what comes back is added."""
    every = list(lines)
    heads = _heads(every)
    found: list[str] = []
    gone: list[str] = []  # lines that are removed stand before those that are added
    came: list[str] = []
    for at, line in enumerate(every):
        if at not in heads and line[:1] in ("-", "+"):
            came += ["+" + line[1:]] if line[0] == "-" else []
            gone += ["-" + line[1:]] if line[0] == "+" else []
            continue
        found += [*gone, *came]
        gone, came = [], []
        if at in heads:  # the two names of a file change places
            found.append(f"--- {every[at + 1][4:]}" if line[0] == "-" else f"+++ {every[at - 1][4:]}")
        else:
            found.append(_PLACES.sub(r"@@ -\2 +\1 @@", _BOTH.sub(r"\1\3 -> \2\4", line)))
    return [*found, *gone, *came]


def _heads(lines: list[str]) -> set[int]:
    """Where the names of files stand. A line that went and began with `-- ` looks like one, and is none."""
    found: set[int] = set()
    for at in range(len(lines) - 2):
        if (lines[at][:4], lines[at + 1][:4], lines[at + 2][:3]) == ("--- ", "+++ ", "@@ "):
            found |= {at, at + 1}
    return found


def _rows(lines: list[str], heads: set[int]) -> Iterator[DiffLine]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if at in heads:
            yield DiffLine("head", _text(line))
            at += 1
            continue
        gone = _run(lines, heads, at, "-")
        came = _run(lines, heads, at + len(gone), "+") if gone else []
        if gone and came and len(gone) == len(came) <= _LONGEST_PAIR:
            pairs = [_marked(one[1:], two[1:]) for one, two in zip(gone, came, strict=True)]
            yield from (DiffLine("del", Markup("-") + before, _SAID["del"]) for before, _ in pairs)
            yield from (DiffLine("add", Markup("+") + after, _SAID["add"]) for _, after in pairs)
            at += len(gone) + len(came)
            continue
        kind = _KINDS.get(line[:1], "same")
        yield DiffLine(kind, _text(line), _SAID.get(kind, ""))
        at += 1


def _run(lines: list[str], heads: set[int], at: int, sign: str) -> list[str]:
    found = []
    while at < len(lines) and at not in heads and lines[at].startswith(sign):
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
