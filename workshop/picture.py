"""Draws `docs/demo.svg`, the picture in the README: the demo as it runs in a terminal, nothing added.

.venv/bin/python workshop/picture.py
"""

from __future__ import annotations

import os
import pty
import sys

from rich.console import Console
from rich.text import Text

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WIDTH = 108


def play() -> str:
    """What `./safekept demo` writes to a terminal, colours included; the bars are on stderr and left out."""
    written: list[bytes] = []

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 4096)
        written.append(data)
        return data

    os.environ.update(TERM="xterm-256color", COLUMNS=str(WIDTH))
    os.environ.pop("NO_COLOR", None)
    os.chdir(CHECKOUT)
    status = pty.spawn(["sh", "-c", "./safekept demo 2>/dev/null"], read)
    if status != 0:
        sys.exit("the demo failed; no picture was drawn")
    return b"".join(written).decode().replace("\r\n", "\n")


def main() -> None:
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    console.print(Text("$ ./safekept demo", style="bold"))
    console.print(Text.from_ansi(play()), no_wrap=True, overflow="ignore")
    console.save_svg(os.path.join(CHECKOUT, "docs", "demo.svg"), title="safekept demo")


if __name__ == "__main__":
    main()
