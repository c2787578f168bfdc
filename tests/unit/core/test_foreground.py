"""A guarded program has its terminal, its signals and its exit status as if nobody stood in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from safekept.core.processes.foreground import (
    CommandNotExecutable,
    CommandNotFound,
    find_program,
    run_in_foreground,
)
from support.commands.terminals import Terminal

#: Runs its arguments in the foreground, and says how that ended.
RUNNER = """
import sys
from safekept.core.processes.foreground import run_in_foreground
end = run_in_foreground(sys.argv[1:])
print("status", end.status, "signal", end.signal, flush=True)
"""
#: Says that it is ready, and which signals come, until the last one; then how many came. It has them blocked
#: and waits for them, so that none can slip in between.
COUNTER = """
import os, signal, sys
mine = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGQUIT, signal.SIGUSR2}
signal.pthread_sigmask(signal.SIG_BLOCK, mine)
print("ready", os.getpid(), flush=True)
count = 0
while (number := signal.sigwait(mine)) != signal.SIGUSR2:
    count += 1
    print("got", int(number), flush=True)
print("count", count, flush=True)
sys.exit(9)
"""


def runner(*words: str) -> list[str]:
    return [sys.executable, "-c", RUNNER, *words]


def counter() -> list[str]:
    return runner(sys.executable, "-c", COUNTER)


@pytest.mark.parametrize("status", [0, 1, 2, 77, 255])
def test_the_exit_status_is_the_commands_own(status):
    end = run_in_foreground(["sh", "-c", f"exit {status}"])
    assert (end.status, end.signal) == (status, 0)
    assert end.text == f"ended with status {status}"


def test_a_killed_command_has_the_status_that_a_shell_gives_it():
    end = run_in_foreground(["sh", "-c", "kill -KILL $$"])
    assert (end.status, end.signal, end.text) == (137, 9, "was ended by SIGKILL")


def test_what_cannot_be_run_is_told_as_a_shell_tells_it(tmp_path):
    path = os.path.join(str(tmp_path), "script")
    with open(path, "w") as file:
        file.write("#!/nowhere/sh\n")
    with pytest.raises(CommandNotExecutable) as refused:
        find_program(path, "")
    assert refused.value.exit_code == 126
    assert refused.value.what == f"`{path}` cannot be run: it may not be executed"
    with pytest.raises(CommandNotExecutable):
        find_program("script", str(tmp_path))
    os.chmod(path, 0o755)
    assert find_program("script", str(tmp_path)) == path
    with pytest.raises(CommandNotFound) as missing:  # its interpreter is not there
        run_in_foreground([path])
    assert missing.value.exit_code == 127
    for name in ("no-such-command-at-all", "/no/such/file"):
        with pytest.raises(CommandNotFound) as unknown:
            find_program(name, os.environ["PATH"])
        assert unknown.value.what == f"There is no command `{name}`"
        assert unknown.value.kept == "The command was not run"
    with open(path, "wb") as file:
        file.write(b"\x7fELF and nothing more")
    with pytest.raises(CommandNotExecutable, match="Exec format error"):
        run_in_foreground([path])


def test_our_own_handlers_are_back_afterwards():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    run_in_foreground(["true"])
    with pytest.raises(CommandNotFound):
        run_in_foreground(["/no/such/file"])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_what_is_sent_to_us_alone_reaches_the_command(number):
    with subprocess.Popen(
        counter(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        ready, pid = process.stdout.readline().split()
        assert ready == "ready"
        os.kill(process.pid, number)
        assert process.stdout.readline() == f"got {number:d}\n"
        os.kill(int(pid), signal.SIGUSR2)
        assert process.stdout.read() == "count 1\nstatus 9 signal 0\n"


def test_what_we_were_told_to_ignore_the_command_ignores_too():
    """`nohup safekept guard -- …`: a hang-up must not end the update half way."""
    script = "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execvp({0!r}, {1!r})"
    words = runner("sh", "-c", "kill -HUP $$; echo survived")
    done = subprocess.run(
        [sys.executable, "-c", script.format(words[0], words)], capture_output=True, text=True
    )
    assert done.stdout == "survived\nstatus 0 signal 0\n", done.stderr


def test_ctrl_c_reaches_the_command_once_and_is_its_own_business():
    with Terminal(*counter()) as terminal:
        terminal.until("\n")
        pid = int(terminal.seen.split()[1])
        terminal.type("\x03")
        terminal.until(f"got {signal.SIGINT:d}\r\n")
        terminal.type("\x1c")
        terminal.until(f"got {signal.SIGQUIT:d}\r\n")
        os.kill(pid, signal.SIGUSR2)
        terminal.until("count 2")
        terminal.until("status 9 signal 0")
        assert terminal.end() == 0


def test_ctrl_z_gives_the_terminal_back_and_fg_goes_on():
    inner = " ".join([sys.executable, "-c", f"'{RUNNER}'", "cat"])
    with Terminal(
        "bash", "--norc", "-mc", f"{inner}; echo shell has $?; fg >/dev/null; echo end $?"
    ) as terminal:
        terminal.type("hello\n")
        terminal.until("hello\r\nhello")
        terminal.type("\x1a")
        terminal.until("shell has 148")
        terminal.type("again\n")
        terminal.until("again\r\nagain")
        terminal.type("\x04")
        terminal.until("status 0 signal 0")
        terminal.until("end 0")
        assert terminal.end() == 0


def test_a_command_that_stops_itself_gives_the_terminal_back_too():
    inner = " ".join([sys.executable, "-c", f"'{RUNNER}'", "sh", "-c", "'kill -STOP $$; echo back'"])
    with Terminal(
        "bash", "--norc", "-mc", f"{inner}; echo shell has $?; fg >/dev/null; echo end $?"
    ) as terminal:
        terminal.until("shell has 147")
        terminal.until("back")
        terminal.until("end 0")
        assert terminal.end() == 0
