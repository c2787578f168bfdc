"""The front door: finds the command, and is the one place where errors become text and exit codes.

Commands are loaded only when called, so that `--help` and short-lived calls import nothing heavy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import click

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from .console import Console
from .groups import LazyGroup
from .interrupted import Interrupted, interrupted, tell_interrupted
from .questions import AT_WORK, LeftAtQuestion

#: name -> (module, one line for --help). The module has a click command called `command`.
COMMANDS = {
    "setup": ("safekept.cli.commands.setup.setup", "Protect this machine, with at most four questions."),
    "status": ("safekept.cli.commands.status.status", "Am I protected? (Also `safekept` alone.)"),
    "backup": ("safekept.cli.commands.archives.backup", "Carry a home away in one file."),
    "import": (
        "safekept.cli.commands.restoring.import_",
        "Bring a home back from a file, with a plan first.",
    ),
    "snapshot": ("safekept.cli.commands.snapshots.snapshot", "Keep points in time of a home in the vault."),
    "restore": (
        "safekept.cli.commands.restoring.restore",
        "Bring a home, or one path of it, back from a snapshot.",
    ),
    "uninstall": (
        "safekept.cli.commands.setup.uninstall",
        "Take back what setup did; what is stored stays.",
    ),
    "settings": ("safekept.cli.commands.setup.settings", "See, explain and change what you set."),
    "history": (
        "safekept.cli.commands.snapshots.history",
        "Every version of one file, and how to bring one back.",
    ),
    "sessions": ("safekept.cli.commands.snapshots.sessions", "One conversation out of a snapshot."),
    "vault": ("safekept.cli.commands.vault", "Make, check and open the vault; its keys and its kit."),
    "checkpoint": (
        "safekept.cli.commands.projects.checkpoint",
        "Keep a project as it is now; look after all that is kept.",
    ),
    "rollback": ("safekept.cli.commands.projects.rollback", "Undo what an agent did to a project."),
    "run": ("safekept.cli.commands.projects.run", "Keep a project while an agent without hooks works in it."),
    "connect": ("safekept.cli.commands.hosts.connect", "Let an agent call safekept before each change."),
    "guard": ("safekept.cli.commands.guard", "Run a risky command between a snapshot and a check."),
    "drill": ("safekept.cli.commands.drill", "Prove that a backup restores, by restoring it."),
    "push": ("safekept.cli.commands.offsite.push", "Take copies of the vault and archives off this host."),
    "pull": ("safekept.cli.commands.offsite.pull", "Bring copies back from a destination."),
    "rebuild": (
        "safekept.cli.commands.restoring.rebuild",
        "The machine is gone: bring the home back on a bare one.",
    ),
    "destinations": (
        "safekept.cli.commands.offsite.destinations",
        "The places off this host: add, see, test and remove them.",
    ),
    "fleet": ("safekept.cli.commands.offsite.fleet", "Every host of a destination or a vault at a glance."),
    "keeper": ("safekept.cli.commands.keeper", "A copy on this machine that no agent can delete."),
    "hook": ("safekept.cli.commands.hosts.hook", "What an agent's host runs before and after its tools."),
    "helper": (
        "safekept.cli.commands.hosts.helper",
        "The process that answers hooks quickly: see it, end it.",
    ),
    "log": ("safekept.cli.commands.undo.log", "See what was done, by whom, and how it ended."),
    "undo": ("safekept.cli.commands.undo.undo", "Take the last import, restore or rollback back."),
    "doctor": (
        "safekept.cli.commands.status.doctor",
        "Find what threatens your protection, and the exact fix.",
    ),
    "schedule": ("safekept.cli.commands.schedule", "Do all of it every night, without you."),
    "notify": ("safekept.cli.commands.status.notify", "Who hears of it when something is wrong."),
    "mcp": ("safekept.cli.commands.hosts.mcp", "Serve an agent over the Model Context Protocol."),
    "ui": (
        "safekept.cli.commands.ui",
        "The same as a page in the browser, with every point in time.",
    ),
    "completion": (
        "safekept.cli.commands.shell:completion_command",
        "Let your shell complete commands and ids.",
    ),
    "manual": ("safekept.cli.commands.shell:manual_command", "Write the manual pages."),
    "demo": ("safekept.cli.commands.demo.demo", "See a home broken and brought back, in a throwaway place."),
}
#: What `--help` shows, by what a person wants; the rest is for programs.
SECTIONS = {
    "Protect": ("setup", "snapshot", "backup", "guard", "schedule", "settings", "uninstall"),
    "Go back": ("restore", "rollback", "undo", "history", "sessions", "import"),
    "Prove": ("status", "ui", "drill", "doctor", "log", "notify", "demo"),
    "Elsewhere": ("push", "pull", "destinations", "keeper", "rebuild", "fleet", "vault"),
    "Agents": ("connect", "run", "mcp", "checkpoint"),
}
#: What people type for it.
FORMER = {
    "config": "settings",
    "set": "settings",
    "list": "snapshot list",
    "diff": "snapshot diff",
    "show": "snapshot show",
    "pin": "snapshot pin",
    "forget": "snapshot forget",
    "prune": "vault prune",
    "check": "vault check",
    "kit": "vault kit",
    "key": "vault key",
    "init": "vault init",
    "destination": "destinations",
    "export": "backup",
    "rewind": "rollback",
    "revert": "rollback",
    "install": "connect",
    "keygen": "backup keygen",
    "verify": "drill",
    "cron": "schedule",
    "timer": "schedule",
    "passphrase": "vault key",
    "recover": "restore",
    "help": "--help",
    "version": "--version",
}
#: Commands that may carry gigabytes through memory, a piece at a time.
_HEAVY = frozenset(
    {
        "setup",
        "backup",
        "checkpoint",
        "import",
        "snapshot",
        "restore",
        "vault",
        "push",
        "pull",
        "drill",
        "schedule",
        "rebuild",
    }
)


class OutputNotWritten(SafekeptError):
    code = "output-not-written"


def _show_version(ctx: click.Context) -> NoReturn:
    from safekept.core.versions import version_text

    click.echo(f"safekept {version_text()}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    default="status",
    sections=SECTIONS,
    former=FORMER,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, asked: _show_version(ctx) if asked else None,
    help="Which safekept this is, to the commit.",
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Keeps what an AI agent knows, and undoes what it does."""
    if ctx.invoked_subcommand in _HEAVY:
        from safekept.core.platform.rights import keep_freed_memory

        keep_freed_memory()


def program() -> str:
    """How this program was called: by its own path, or plain `safekept` where that is on the PATH."""
    import shlex

    launcher = os.environ.get("SAFEKEPT_LAUNCHER", "")
    called = sys.argv[0] if sys.argv else ""
    if not launcher and os.path.basename(called) == "safekept" and os.path.dirname(called):
        launcher = called  # installed where no PATH leads, as in an environment that is not activated
    if not launcher or _on_path("safekept"):
        return "safekept"
    return shlex.quote(launcher)


def _on_path(name: str) -> bool:
    """Whether a program of this name is found; `shutil` would cost more than the looking."""
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = (os.path.join(place, name) for place in places if place)
    return any(os.path.isfile(path) and os.access(path, os.X_OK) for path in found)


def handle_signals() -> None:
    """Being asked to end is an orderly end: every `finally` on the way out runs."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` means it
            signal.signal(number, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def run(arguments: list[str]) -> int:
    """Run one command line; returns its exit code and never raises."""
    before_dashes = arguments[: arguments.index("--")] if "--" in arguments else arguments
    console = Console(as_json="--json" in before_dashes, program=program())
    try:
        LazyGroup.called = ""
        code = cli.main(args=arguments, prog_name="safekept", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except Interrupted as error:
        return _told(error.exit_code, tell_interrupted, console, error)
    except SafekeptError as error:
        return _told(error.exit_code, console.error, error)
    except click.exceptions.NoArgsIsHelpError as error:
        return _told(2, click.echo, error.format_message())
    except click.UsageError as error:
        return _told(2, console.usage, error)
    except click.ClickException as error:
        return _told(error.exit_code, error.show)
    except LeftAtQuestion as left:
        word, code = ("Interrupted", 130) if left.interrupted else ("Stopped", 1)
        if left.interrupted and left.kept == AT_WORK:
            return _told(code, tell_interrupted, console, interrupted(LazyGroup.called))
        return _told(code, console.say, f"{word}; {left.kept}")
    except click.Abort as error:
        if isinstance(error.__cause__, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
            return _told(130, tell_interrupted, console, interrupted(LazyGroup.called))
        return _told(1, console.say, "Stopped; nothing was changed")
    except KeyboardInterrupt:
        return _told(130, tell_interrupted, console, interrupted(LazyGroup.called))
    except BrokenPipeError:
        # The reader of our output went away; point stdout elsewhere so that exit stays quiet.
        _drop_output()
        return 1
    except Exception as error:
        lost = _lost_output() if isinstance(error, OSError) else None
        if lost is not None:
            _drop_output()
            return _told(1, Console(as_json=False, program=console.program).error, lost)
        from .unforeseen import unforeseen

        return _told(1, console.error, unforeseen(error))
    finally:  # also where a signal ends it: no bar stays on the screen, and the cursor comes back
        Console.finish()


def _told(code: int, tell: Callable[..., object], *words: object) -> int:
    """Say how it ended. Where it cannot be heard, the exit code still says it."""
    with contextlib.suppress(OSError):
        tell(*words)
    return code


def _lost_output() -> OutputNotWritten | None:
    """The error to tell where standard output takes nothing more, as on a full disk."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        return OutputNotWritten(
            f"The result could not be written: {error.strerror or error}",
            kept="What the command did is done; only its words are missing",
            next_steps=(NextStep("log", before="See what was done:"),),
        )
    return None


def _drop_output() -> None:
    """What is still to be written to stdout goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def main() -> None:
    """The entry point."""
    _open_closed_streams()
    handle_signals()
    # Threads that hash and compress come back for the interpreter a thousand times per gigabyte. With
    # the default of 5 ms they wait longer for it than they work (measured: a third of a backup).
    sys.setswitchinterval(0.0005)
    code = run(sys.argv[1:])
    leave(code)


def leave(code: int) -> NoReturn:
    """End the process at once. Everything that had to be closed was closed on the way out of `run`.

    Taking the interpreter apart object by object would cost up to a second after a large home, and
    only the kernel waits for its memory, and takes it back whole.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            code = code or 1
    os._exit(code)


def _open_closed_streams() -> None:
    """Where a caller closed standard input, output or error, nothing comes and everything goes nowhere.

    No file of ours may get one of their numbers, and no code has to ask whether they are there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            setattr(sys, name, open(nowhere, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115
