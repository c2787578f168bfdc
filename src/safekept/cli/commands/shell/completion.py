"""`safekept completion SHELL`: let a shell complete the commands of safekept."""

from __future__ import annotations

import sys

import click

from ...shell.completion_scripts import SCRIPTS


@click.command("completion")
@click.argument("shell", type=click.Choice(tuple(SCRIPTS)))
@click.argument("words", metavar="[WORD]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--words", "answer", is_flag=True, help="Print what the last WORD can become; the script asks this."
)
def command(shell: str, words: tuple[str, ...], answer: bool) -> int:
    """Print a script that lets SHELL complete commands, options, checkpoints, snapshots and more.

    For bash: source <(safekept completion bash), in ~/.bashrc. For zsh: the same with zsh, in ~/.zshrc. For
    fish: write it to ~/.config/fish/completions/safekept.fish.
    """
    if not answer:
        if words:
            raise click.UsageError("WORD goes with --words only.")
        click.echo(SCRIPTS[shell], nl=False)
        if sys.stdout.isatty():
            click.echo("\nThe first lines of the script say where it belongs", err=True)
        return 0
    from ...main import cli
    from ...shell.completing import complete

    try:
        found = complete(cli, words)
    except Exception:
        return 0  # whoever presses Tab wants no error
    last = words[-1] if words else ""
    # fish replaces the whole word, the others what stands behind the sign.
    prefix = last[: last.index("=") + 1] if shell == "fish" and last.startswith("--") and "=" in last else ""
    for line in found.lines(prefix):
        click.echo(line)
    return 0
