"""`safekept backup keygen`: keys for archives that this host itself cannot open."""

from __future__ import annotations

import os

import click

from safekept.actions.archives.sealing import make_pair
from safekept.core.next_step import NextStep

from ....console import path_text
from ....options import start
from ....sealing import passphrase_options


@click.command("keygen")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="",
    help="Where the private half goes: a new file, readable by you alone.",
)
@click.option("--protect", is_flag=True, help="With -o: seal the private half itself with a passphrase.")
@passphrase_options
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(output: str, protect: bool, as_json: bool) -> int:
    """Make a pair of keys for `safekept backup --seal TO`, in the format of age.

    The public half (`age1…`) is all that the machine needs that makes the archives. The private half
    opens them: make the pair where you would restore, or move the file there and keep a second copy.
    Without -o the private half is printed, for a password manager; it is kept nowhere else.
    """
    _, context, console = start(as_json)
    path = os.path.abspath(os.path.expanduser(output)) if output else ""
    if protect and not path:
        raise click.UsageError("--protect goes with -o: the protected half is not text.")
    pair = make_pair(context, path, protect=protect)
    console.document(
        {
            "public_key": pair.public,
            "identity_file": path or None,
            "identity": None if path else pair.text,
            "protected": protect,
        }
    )
    if path:
        console.heading("A pair of keys was made")
        console.fact("Public", pair.public)
        console.fact(
            "", NextStep("backup", ("--seal", pair.public), before="for the machine that makes archives:")
        )
        console.fact("Private", path_text(path) + (", protected by the passphrase" if protect else ""))
        console.fact("", "keep it elsewhere, and twice: without it what was sealed to it cannot be opened")
        console.fact("", "where it lies, archives can be read; a server that only backs up needs none of it")
    else:
        console.verbatim(pair.text.rstrip())
        if not as_json:
            console.say("Keep the line with AGE-SECRET-KEY elsewhere, and twice; it is not stored here")
            console.say(f"The machine that makes archives needs only this: {pair.public}")
    return 0
