"""Asking systemctl, launchctl and crontab: what they refuse is an error that says so in their own words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

#: Runs a program with an input; its status and what it printed.
Runner = Callable[[Sequence[str], str], tuple[int, str]]
TAKEN_BACK = "What was written for it was taken back; nothing is installed"


class HostRefused(SafekeptError):
    code = "schedule-host-refused"


def read_table(run: Runner) -> str:
    """The user's crontab; there may be none yet, which is no error.

    Any other failure is one: what cannot be read must not be written over.
    """
    code, text = run(("crontab", "-l"), "")
    if code == 0:
        return text
    if "no crontab" in text.lower() or "no such file" in text.lower():
        return ""
    raise HostRefused(
        f"`crontab -l` ended with status {code}: {' '.join(text.split())[:300]}",
        kept="Your crontab was left as it is",
        next_steps=("Run that command by itself to see why",),
        status=code,
    )


def write_table(run: Runner, table: str, kept: str = TAKEN_BACK) -> None:
    """Put it in place; an empty one is no table at all."""
    if table.strip():
        expect(run, ("crontab", "-"), table, kept)
    else:
        run(("crontab", "-r"), "")


def expect(run: Runner, words: Sequence[str], given: str = "", kept: str = TAKEN_BACK) -> None:
    """Ask; HostRefused where it does not end well. `kept` is what the caller makes sure of then."""
    code, text = run(words, given)
    if code != 0:
        printed = " ".join(text.split())[:300]
        raise HostRefused(
            f"`{' '.join(words)}` ended with status {code}" + (f": {printed}" if printed else ""),
            kept=kept,
            next_steps=(
                "Run that command by itself to see why",
                NextStep("schedule install", ("--host", "cron"), before="Or use cron instead:"),
            ),
            command=list(words),
            status=code,
        )


def attempt(run: Runner, words: Sequence[str]) -> str:
    """Ask, and go on whatever comes of it; what went wrong, in a line."""
    code, text = run(words, "")
    return (
        f"`{' '.join(words)}` ended with status {code}: {' '.join(text.split())[:200]}" if code != 0 else ""
    )


def not_written(error: OSError) -> HostRefused:
    return HostRefused(
        f"`{error.filename}` cannot be written: {error.strerror}",
        kept=TAKEN_BACK,
        next_steps=("See that you may write there, then run the command again",),
        path=error.filename,
    )
