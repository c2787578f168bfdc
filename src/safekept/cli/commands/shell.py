"""`safekept completion SHELL`: let a shell complete the commands of safekept."""

from __future__ import annotations

import os
import sys

import click

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ..console import count_text, path_text
from ..options import start
from ..shell.completion_scripts import SCRIPTS

# `completion` and `manual`.


# `safekept manual`: write the manual pages.


class ManualNotWritten(SafekeptError):
    code = "manual-not-written"


@click.command("manual")
@click.option("-o", "--output", metavar="DIR", required=True, help="Where the pages go; made if need be.")
@click.option("--dry-run", is_flag=True, help="Say which pages would be written; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def manual_command(output: str, dry_run: bool, as_json: bool) -> int:
    """Write the manual pages of this version into DIR, one for each command.

    For `man safekept` to find them: `safekept manual -o ~/.local/share/man/man1`. A package of safekept
    brings them along. Pages of safekept that are there already are replaced; nothing else is touched.
    """
    from safekept.core.files import durable_write
    from safekept.core.owner import held_output

    from ..main import cli
    from ..shell.manual_pages import pages

    _, _, console = start(as_json)
    place = os.path.abspath(os.path.expanduser(output))
    names: list[str] = []
    for name, text in pages(cli):
        path = os.path.join(place, name)
        try:
            if not dry_run:
                os.makedirs(place, exist_ok=True)
                with held_output(path) as held:
                    durable_write(held, text.encode(), 0o644)  # `man` may run as another user
        except OSError as error:
            raise ManualNotWritten(
                f"the page `{path}` could not be written: {error.strerror or error}",
                kept=f"{count_text(len(names), 'page')} written before it, whole; no other file was touched",
                next_steps=(
                    NextStep("manual", ("-o", "DIR"), before="Name a directory that you may write to:"),
                ),
                path=path,
            ) from error
        names.append(name)
    console.document({"dry_run": dry_run, "directory": place, "pages": names})
    done = "Would write" if dry_run else "Wrote"
    console.line(f"{done} {count_text(len(names), 'page')} into {path_text(place)}")
    return 0


@click.command("completion")
@click.argument("shell", type=click.Choice(tuple(SCRIPTS)))
@click.argument("words", metavar="[WORD]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--words", "answer", is_flag=True, help="Print what the last WORD can become; the script asks this."
)
def completion_command(shell: str, words: tuple[str, ...], answer: bool) -> int:
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
    from ..main import cli
    from ..shell.completing import complete

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
