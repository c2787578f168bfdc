"""`safekept completion SHELL`: let a shell complete the commands of safekept."""

from __future__ import annotations

import os
import sys

import click

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ..console import count_text, path_text
from ..options import start

# The scripts that make a shell ask us what may come next. Each says at its top how it is installed.

BASH = r"""# Completion of safekept for bash. Put this line into ~/.bashrc:
#     source <(safekept completion bash)
_safekept() {
    local -a words=()
    local word line last=-1 i
    COMPREPLY=()
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        # bash takes `--dir=x` for three words
        if ((last >= 0)) && [[ $word == "=" || ${words[last]} == --*= ]]; then
            words[last]+=$word
        else
            words+=("$word")
            ((last += 1))
        fi
    done
    while IFS= read -r line; do
        if [[ ${line%%$'\t'*} ]]; then
            COMPREPLY+=("${line%%$'\t'*}")
            continue
        fi
        case ${line#*$'\t'} in
            files) compopt -o default 2>/dev/null ;;
            directories) compopt -o dirnames 2>/dev/null ;;
            commands)
                while IFS= read -r word; do
                    COMPREPLY+=("$word")
                done < <(compgen -c -- "${words[last]}")
                ;;
        esac
    done < <("$1" completion bash --words -- "${words[@]}" 2>/dev/null)
}
complete -o nosort -F _safekept safekept 2>/dev/null || complete -F _safekept safekept
"""

ZSH = r"""#compdef safekept
# Completion of safekept for zsh. Put this line into ~/.zshrc, after `compinit`:
#     source <(safekept completion zsh)
# or write it to a file called _safekept in a directory of $fpath.
_safekept() {
    local line task=''
    local -a found asked
    asked=("${(@Q)words[2,CURRENT]}")
    [[ $PREFIX == --*=* ]] && compset -P '*='
    while IFS= read -r line; do
        if [[ -n ${line%%$'\t'*} ]]; then
            found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        else
            task=${line#*$'\t'}
        fi
    done < <("${(Q)words[1]}" completion zsh --words -- "${asked[@]}" 2>/dev/null)
    (( $#found )) && _describe -V safekept found
    case $task in
        files) _files ;;
        directories) _files -/ ;;
        commands) _command_names -e ;;
    esac
}
if [[ $funcstack[1] == _safekept ]]; then
    _safekept "$@"
else
    compdef _safekept safekept
fi
"""

FISH = r"""# Completion of safekept for fish. Run this once:
#     safekept completion fish > ~/.config/fish/completions/safekept.fish
function __safekept_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    for line in ($program completion fish --words -- $words "$current" 2>/dev/null)
        switch $line
            case \tfiles
                __fish_complete_path "$current"
            case \tdirectories
                __fish_complete_directories "$current" ''
            case \tcommands
                __fish_complete_command
            case '*'
                echo $line
        end
    end
end
complete -c safekept -f -k -a '(__safekept_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


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
    from ..manual_pages import pages

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
                f"The page `{path}` could not be written: {error.strerror or error}",
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
    from ..completing import complete
    from ..main import cli

    try:
        found = complete(cli, words)
    except Exception:
        return 0  # pressing Tab shows no error
    last = words[-1] if words else ""
    # fish replaces the whole word, the others what stands behind the sign.
    prefix = last[: last.index("=") + 1] if shell == "fish" and last.startswith("--") and "=" in last else ""
    for line in found.lines(prefix):
        click.echo(line)
    return 0
