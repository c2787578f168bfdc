"""The front door: finds the command, and is the one place where errors become text and exit codes.

Commands are loaded only when called, so that `--help` and short-lived calls import nothing heavy.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from holdfast import __version__
from holdfast.cli.console import Console
from holdfast.cli.groups import LazyGroup
from holdfast.core.errors import HoldfastError

#: name -> (module, one line for --help). The module has a click command called `command`.
COMMANDS = {
    "backup": ("holdfast.cli.commands.backup", "Carry a home away in one file."),
    "import": ("holdfast.cli.commands.import_", "Bring a home back from a file, with a plan first."),
    "snapshot": ("holdfast.cli.commands.snapshot", "Keep points in time of a home in the vault."),
    "history": ("holdfast.cli.commands.history", "Every version of one file, and how to bring one back."),
    "sessions": ("holdfast.cli.commands.sessions", "One conversation out of an older state.db."),
    "vault": ("holdfast.cli.commands.vault", "Make, check and open the vault; its keys and its kit."),
    "adopt": ("holdfast.cli.commands.adopt", "Take the copies that Hermes made into the vault."),
    "checkpoint": ("holdfast.cli.commands.checkpoint", "Keep a project as it is now."),
    "checkpoints": ("holdfast.cli.commands.checkpoints", "Look after the checkpoints of all projects."),
    "rollback": ("holdfast.cli.commands.rollback", "Undo what an agent did to a project."),
    "undo": ("holdfast.cli.commands.undo", "Take the last import or restore back."),
    "demo": ("holdfast.cli.commands.demo", "See a home broken and brought back, in a throwaway place."),
}
#: Commands that may carry gigabytes through memory, a piece at a time.
_HEAVY = frozenset({"backup", "import", "snapshot", "restore", "vault", "adopt"})


class Unexpected(HoldfastError):
    code = "unexpected"


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="holdfast")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Keeps what an AI agent knows, and undoes what it does."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    elif ctx.invoked_subcommand in _HEAVY:
        from holdfast.cli.memory import keep_freed_memory

        keep_freed_memory()


def program() -> str:
    """How this program was called: the launcher, or plain `holdfast` where that is on the PATH."""
    import shlex
    import shutil

    launcher = os.environ.get("HOLDFAST_LAUNCHER", "")
    if not launcher or shutil.which("holdfast"):
        return "holdfast"
    return shlex.quote(launcher)


def handle_signals() -> None:
    """Being asked to end is an orderly end: every `finally` on the way out runs."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def run(arguments: list[str]) -> int:
    """Run one command line; returns its exit code and never raises."""
    before_dashes = arguments[: arguments.index("--")] if "--" in arguments else arguments
    console = Console(as_json="--json" in before_dashes, program=program())
    try:
        code = cli.main(args=arguments, prog_name="holdfast", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except HoldfastError as error:
        console.error(error)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.UsageError as error:
        console.usage(error)
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort as error:
        if isinstance(error.__cause__, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
            console.say("Interrupted; nothing is left half done")
            return 130
        console.say("Stopped; nothing was changed")
        return 1
    except KeyboardInterrupt:
        console.say("Interrupted; nothing is left half done")
        return 130
    except BrokenPipeError:
        # The reader of our output went away; point stdout elsewhere so that exit stays quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as error:
        console.error(_unexpected(error))
        return 1


def _unexpected(error: Exception) -> Unexpected:
    import tempfile
    import traceback

    descriptor, path = tempfile.mkstemp(prefix="holdfast-error-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write("".join(traceback.format_exception(error)))
    return Unexpected(
        f"something went wrong that holdfast did not foresee: {type(error).__name__}: {error}",
        kept="No file was replaced without the old one being kept; an unfinished import is taken back "
        "by the next command",
        next_steps=(f"The details are in `{path}`; please report them",),
        traceback=path,
    )


def main() -> None:
    """The entry point."""
    handle_signals()
    # Threads that hash and compress come back for the interpreter a thousand times per gigabyte. With
    # the default of 5 ms they wait longer for it than they work (measured: a third of a backup).
    sys.setswitchinterval(0.0005)
    # Tens of thousands of entries stay alive to the end; by default the collector walks over them again
    # and again (measured: a twentieth of an import).
    gc.set_threshold(50_000, 20, 20)
    code = run(sys.argv[1:])
    leave(code)


def leave(code: int) -> NoReturn:
    """End the process at once. Everything that had to be closed was closed on the way out of `run`.

    Taking the interpreter apart object by object would cost up to a second after a large home, and
    nobody is waiting for its memory but the kernel, which takes it back whole.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = code or 1
    os._exit(code)
