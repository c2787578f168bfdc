"""The lines that differ between two texts, at a price that no text can raise.

Python's `difflib` compares in a time that grows with the square of a text, or faster: one of a megabyte that
was made for it takes hours. So its steps are counted. Where they are too many, what the two texts begin
and end with in common is the same, and everything between is another text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate

#: What is done to the lines from `start` to `end` of the old text, and by which of the new one.
Change = tuple[str, int, int, int, int]
#: Steps of a comparison: some seconds of them.
_MOST_STEPS = 20_000_000
_AROUND = 3  # lines that are shown around a change


class _TooManySteps(Exception):
    pass


class _Counting(SequenceMatcher[str]):
    """Gives up before it takes too long."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, old, new)
        places: dict[str, list[int]] = self.b2j  # type: ignore[attr-defined]
        self._steps = [0, *accumulate(1 + len(places.get(line, ())) for line in old)]
        self._left = _MOST_STEPS

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, *rest: int | None) -> Match:
        self._left -= self._steps[-1 if ahi is None else ahi] - self._steps[alo]
        if self._left < 0:
            raise _TooManySteps
        return super().find_longest_match(alo, ahi, *rest)  # type: ignore[arg-type]


def changes(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """From one text to the other, what is the same included, as `SequenceMatcher.get_opcodes` gives it."""
    try:
        return list(_Counting(old, new).get_opcodes())
    except _TooManySteps:
        return _around_the_middle(old, new)


def _around_the_middle(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    left = shorter - start
    end = next((at for at in range(left) if old[-1 - at] != new[-1 - at]), left)
    one, two = len(old) - end, len(new) - end
    kind = "insert" if start == one else "delete" if start == two else "replace"
    found: list[Change] = [
        ("equal", 0, start, 0, start),
        (kind, start, one, start, two),
        ("equal", one, len(old), two, len(new)),
    ]
    return [change for change in found if change[1] < change[2] or change[3] < change[4]]


def unified(old: Sequence[str], new: Sequence[str], before: str, after: str) -> Iterator[str]:
    """The same as `diff -u` writes it, without line ends."""
    matcher = SequenceMatcher(None, "", "")
    matcher.opcodes = changes(old, new)  # type: ignore[attr-defined]
    for number, group in enumerate(matcher.get_grouped_opcodes(_AROUND)):
        if not number:
            yield f"--- {before}"
            yield f"+++ {after}"
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@"
        for kind, start, end, new_start, new_end in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[start:end])
                continue
            yield from (f"-{line}" for line in old[start:end])
            yield from (f"+{line}" for line in new[new_start:new_end])


def _span(start: int, end: int) -> str:
    """Where a change begins and how many lines it has, as `diff` counts them."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
