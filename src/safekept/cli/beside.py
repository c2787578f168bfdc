"""A console for commands whose stdout belongs to the program that they run: everything goes to stderr."""

from __future__ import annotations

from typing import Any

import click

from safekept.core.next_step import Step

from .console import Console, harmless, styled


class BesideConsole(Console):
    """The same words, beside the result of somebody else."""

    def line(self, text: Step = "", **style: Any) -> None:
        click.echo(styled(harmless(self.step(text)), **style), err=True)
