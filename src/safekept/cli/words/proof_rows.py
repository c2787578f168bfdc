"""The rows of a receipt on the screen: the same for a drill and for a rebuild."""

from __future__ import annotations

from collections.abc import Iterable

from safekept.actions.drill.receipts import FAILED, Row

from ..console import Console, at_words, screen_width

_CHECK, _STATE, _COUNT = 12, 8, 7


def show_rows(console: Console, rows: Iterable[Row]) -> None:
    """One line for each check: its name, how it ended, how many things it looked at, and what it says."""
    for row in rows:
        count = f"{row.count:,}" if row.count else ""
        state = "FAILED" if row.state == FAILED else row.state
        start = f"  {row.check:<{_CHECK}} {state:<{_STATE}} {count:>{_COUNT}}  "
        style = {"fg": "yellow"} if row.state == FAILED else {}
        console.line(at_words(start + row.text, len(start), screen_width()), **style)
