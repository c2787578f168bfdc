"""Watch mode: real agents (shell scripts) in a real project, with what they did kept at every pause."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from conftest import run_safekept
from safekept.actions.projects.project import checkpoint_directory
from safekept.checkpoints.store.store import Store
from support.commands.error_texts import error_code
from support.commands.terminals import Terminal
from support.home.homes import make_hermes_home
from support.projects.checkpoints import put, tree_on_disk
from support.users.contexts import throwaway

SAFEKEPT = (sys.executable, "-I", "-m", "safekept")
#: Longer than any machine needs; a test that waits so long has failed.
DEADLINE = 300.0


def until(what: Callable[[], object], named: str) -> None:
    """Wait for an event, not for a time."""
    end = time.monotonic() + DEADLINE
    while not what():
        assert time.monotonic() < end, f"never came: {named}"
        time.sleep(0.02)


class Bench:
    """A user with a project, and agents that wait for their cues."""

    def __init__(self, directory: str, environment: dict[str, str]) -> None:
        self.directory, self.environment = directory, {**environment, "NO_COLOR": "1"}
        self.here = throwaway(directory)
        self.project = os.path.join(self.here.places.user_home, "project")
        put(os.path.join(self.project, "package.json"), "{}")
        put(os.path.join(self.project, "a"), "as it was\n")
        put(os.path.join(self.project, "deep", "b"), b"\0\1\2", 0o640)
        self.store = checkpoint_directory(self.here)

    def cue(self, name: str) -> str:
        return os.path.join(self.directory, f"cue-{name}")

    def give(self, name: str) -> None:
        put(self.cue(name))

    def agent(self, script: str) -> tuple[str, ...]:
        """`WAIT x` waits for a cue, `TELL x` gives one, `PUT a x` writes a file at one stroke."""
        aside = os.path.join(self.directory, "aside")
        script = re.sub(r"PUT (\w+) (\w+)", rf"echo \2 > {aside}; mv {aside} \1", script)
        script = re.sub(
            r"WAIT (\w+)", lambda m: f"until [ -e {self.cue(m[1])} ]; do sleep 0.02; done", script
        )
        script = re.sub(r"TELL (\w+)", lambda m: f": > {self.cue(m[1])}", script)
        return "sh", put(os.path.join(self.directory, "agent.sh"), script)

    def points(self, *kinds: str) -> list[object]:
        """Oldest first, of these kinds (default: numbered ones)."""
        if not os.path.isdir(os.path.join(self.store, "store")):
            return []
        with Store.open(self.store) as store:
            found = store.checkpoints(self.project)
        return [point for point in reversed(found) if point.kind in (kinds or ("before",))]

    def at(self, point: object) -> dict[str, bytes]:
        with Store.open(self.store) as store:
            state = store.state(point)  # type: ignore[arg-type]
            return {path: store.read(one.oid) for path, one in state.items() if one.kind == "file"}

    def holds(self, path: str, content: bytes | None) -> Callable[[], bool]:
        """Whether a numbered point holds this content, or the absence of that path."""
        return lambda: any(self.at(point).get(path) == content for point in self.points())

    def words(self, *options: str, quiet: str = "0.3") -> tuple[str, ...]:
        return (*SAFEKEPT, "run", "--quiet", quiet, *options, "--")

    @contextlib.contextmanager
    def running(self, script: str, *options: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [*self.words(*options), *self.agent(script)],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream and not stream.closed:
                    stream.close()

    def run(self, script: str, *options: str, **more: object) -> subprocess.CompletedProcess[str]:
        more.setdefault("cwd", self.project)
        return self.safekept(*self.words(*options)[len(SAFEKEPT) :], *self.agent(script), **more)

    def safekept(self, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        more.setdefault("timeout", DEADLINE)
        return run_safekept(*words, environment=self.environment, **more)

    def journal(self) -> list[tuple[str, dict[str, object]]]:
        return [(one.state, one.facts) for one in self.here.journal.read() if one.verb == "run"]


@pytest.fixture
def bench(tmp_path, launcher_environment):
    return Bench(str(tmp_path), launcher_environment)


def printed(text: str) -> list[str]:
    return re.findall(r"`(safekept [^`]+)`", text)


# ── what is kept ───────────────────────────────────────────────────────────────────────────────────


def test_every_pause_of_an_agent_is_a_point_and_its_status_and_output_are_its_own(bench):
    script = """
    echo out; echo err >&2
    echo two > a; WAIT one
    mkdir -p new/folder; echo deeper > new/folder/file; WAIT two
    echo unseen > new/folder/file; WAIT three
    rm deep/b; exit 7
    """
    with bench.running(script) as process:
        until(bench.holds("a", b"two\n"), "the first pause")
        bench.give("one")
        until(bench.holds("new/folder/file", b"deeper\n"), "a file in a new directory")
        bench.give("two")
        until(bench.holds("new/folder/file", b"unseen\n"), "a change in a new directory")
        bench.give("three")
        out, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out) == (7, "out\n")
    assert bench.at(bench.points()[0])["a"] == b"as it was\n"
    (after,) = bench.points("after")
    assert "deep/b" not in bench.at(after) and after.session == bench.points()[0].session
    assert "Run: sh ended with status 7 after" in err
    assert re.search(r"Changed +3 files \+2 -1 in ", err)
    assert [state for state, _ in bench.journal()] == ["begun", "done"]
    assert bench.journal()[1][1]["status"] == 7


def test_a_hidden_file_that_the_agent_deleted_is_back_after_one_rollback(bench):
    hidden = os.path.join(bench.project, ".env")
    put(os.path.join(bench.project, ".gitignore"), ".env\n")
    put(hidden, "KEY=1\n", 0o600)
    done = bench.run("rm .env")
    assert done.returncode == 0 and "nothing brings" not in done.stderr and not os.path.exists(hidden)
    back = bench.safekept("rollback", "1", cwd=bench.project)
    assert back.returncode == 0, back.stdout + back.stderr
    with open(hidden) as file:
        assert file.read() == "KEY=1\n"
    assert os.stat(hidden).st_mode & 0o777 == 0o600


def test_the_first_point_holds_the_project_as_it_was_and_the_printed_command_brings_it_back(bench):
    before = tree_on_disk(bench.project)
    done = bench.run("echo ruined > a; rm -rf deep; chmod 600 package.json; ln -s a link")
    assert done.returncode == 0
    undo = next(line for line in printed(done.stderr) if line.startswith("safekept rollback 1"))
    back = bench.safekept(*shlex.split(undo)[1:], cwd=bench.project)
    assert back.returncode == 0, back.stderr
    assert tree_on_disk(bench.project) == before


def test_a_change_without_end_is_kept_in_its_midst(bench):
    with bench.running(
        "until [ -e stop ]; do date +%N > a; sleep 0.02; done; rm stop", "--quiet", "0.1"
    ) as process:
        until(lambda: len(bench.points()) >= 3, "points while it writes")
        assert process.poll() is None
        put(os.path.join(bench.project, "stop"))
        assert process.wait(DEADLINE) == 0


def test_a_directory_without_any_marker_is_a_project_once_a_person_runs_an_agent_in_it(bench):
    os.unlink(os.path.join(bench.project, "package.json"))
    done = bench.run("echo changed > a; rm -r deep")
    assert done.returncode == 0, done.stderr
    assert bench.at(bench.points()[0])["deep/b"] == b"\0\1\2"
    assert "deep/b" not in bench.at(bench.points("after")[0])


def test_a_directory_given_by_name_is_watched_and_the_agent_stays_where_it_was(bench, tmp_path):
    done = bench.run(f"pwd; echo x > {bench.project}/a", "--dir", bench.project, cwd=str(tmp_path))
    assert done.stdout.strip() == str(tmp_path)
    assert f"--dir {bench.project}" in printed(done.stderr)[0]
    assert bench.at(bench.points("after")[0])["a"] == b"x\n"


def test_a_project_with_a_name_that_is_no_text_is_looked_at_instead(bench):
    bench.project = os.path.join(bench.here.places.user_home, os.fsdecode(b"not \xff text"))
    put(os.path.join(bench.project, "a"), "1")
    with bench.running("echo two > a; WAIT one") as process:
        until(bench.holds("a", b"two\n"), "what it changed")
        bench.give("one")
        _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert err.count("the project is looked at again and again instead") == 1
    assert "Run: a directory's name is not UTF-8" in err


def test_an_agent_that_changes_nothing_is_not_asked_about(bench):
    done = bench.run("cat a >/dev/null")
    assert "Changed    nothing that a checkpoint holds in" in done.stderr and printed(done.stderr) == []


def test_hidden_files_that_the_agent_deleted_are_named_and_come_back(bench):
    put(os.path.join(bench.project, ".env"), "KEY=1")
    put(os.path.join(bench.project, "film.bin"), b"0" * (11 << 20))
    done = bench.run("rm .env film.bin")
    assert "Lost" not in done.stderr
    assert re.search(r"Changed +2 files in ", done.stderr), "as many as are listed"
    assert bench.safekept("rollback", "1", cwd=bench.project).returncode == 0
    with open(os.path.join(bench.project, ".env")) as file:
        assert file.read() == "KEY=1"
    assert os.path.getsize(os.path.join(bench.project, "film.bin")) == 11 << 20


def test_what_no_checkpoint_holds_and_the_agent_deleted_is_told(bench):
    """ "Changed nothing" would be a lie about a deleted `.env`, which nobody can bring back."""
    bench.environment["SAFEKEPT_CHECKPOINTS_HIDDEN_BUDGET"] = "0"
    put(os.path.join(bench.project, ".env"), "KEY=1")
    put(os.path.join(bench.project, "film.bin"), b"0" * (11 << 20))
    put(os.path.join(bench.project, "stays.bin"), b"0" * (11 << 20))
    report = os.path.join(bench.directory, "report.json")
    done = bench.run("rm .env film.bin", "--report", report)
    assert "Lost       .env: holds secrets, which are only kept encrypted" in done.stderr
    assert "film.bin: larger than the limit" in done.stderr and "stays.bin" not in done.stderr
    assert "in no checkpoint, and gone now: no checkpoint can bring that back" in done.stderr
    with open(report) as file:
        gone = json.load(file)["account"]["gone"]
    assert [(one["path"], one["reason"]) for one in gone] == [(".env", "secret"), ("film.bin", "oversize")]


def test_a_home_snapshot_is_taken_first_where_it_is_asked_for(bench):
    make_hermes_home(os.path.join(bench.here.places.user_home, ".hermes"), awkward=False)
    done = bench.run("true", "--snapshot")
    assert done.returncode == 0, done.stderr
    assert re.search(r"Run: checkpoint \w{12} of \S+, home snapshot [0-9a-f]{8}", done.stderr)
    listed = json.loads(bench.safekept("snapshot", "list", "--json").stdout)
    assert [one["kind"] for one in listed["snapshots"]] == ["quick"]


# ── not started ────────────────────────────────────────────────────────────────────────────────────


def test_a_home_that_cannot_be_kept_does_not_leave_the_project_unprotected(bench):
    """`--anyway` means: start it. It does not mean: keep nothing, because one of two cannot be kept."""
    ran = f": > {bench.cue('ran')}; echo two > a"
    done = bench.run(ran, "--snapshot")
    assert done.returncode == 1 and not os.path.exists(bench.cue("ran"))
    assert "No snapshot of the home could be taken before the agent starts: there is no" in done.stderr
    assert "Run it without one, with the project kept" in done.stderr
    done = bench.run(ran, "--snapshot", "--anyway")
    assert done.returncode == 0 and "Run: NO SNAPSHOT of the home: there is no" in done.stderr
    assert "Trouble    no snapshot of the home was taken" in done.stderr
    assert bench.at(bench.points()[0])["a"] == b"as it was\n"
    assert bench.journal()[-1][0] == "incomplete"


def test_an_agent_that_is_not_there_ends_with_127_and_nothing_is_taken(bench):
    done = bench.safekept(*bench.words()[4:], "no-such-agent", cwd=bench.project)
    assert (done.returncode, bench.points()) == (127, [])
    assert "There is no command `no-such-agent`" in done.stderr


@pytest.mark.parametrize("anyway", [False, True])
def test_a_project_that_cannot_be_kept_is_not_run_in_unless_that_is_wanted(bench, tmp_path, anyway):
    ran = os.path.join(str(tmp_path), "ran")
    options = ["--anyway"] if anyway else []
    done = bench.run(f": > {ran}; exit 5", *options, cwd=bench.here.places.user_home)
    assert os.path.exists(ran) == anyway
    if anyway:
        assert done.returncode == 5
        assert "Run: NOT PROTECTED" in done.stderr and "nothing was kept" in done.stderr
        assert [state for state, _ in bench.journal()] == ["begun", "incomplete"]
        return
    assert done.returncode == 1
    assert error_code(done.stderr) == "run-not-protected" and "is not a project" in done.stderr
    assert "`sh` was not started; the project was only read" in done.stderr
    assert "`safekept run --anyway -- AGENT`" in done.stderr
    assert [state for state, _ in bench.journal()] == ["begun", "failed"]


def test_a_store_that_cannot_be_written_keeps_the_agent_from_starting(bench, tmp_path):
    put(bench.store, b"a file in the way")
    done = bench.run("true")
    assert done.returncode == 1 and error_code(done.stderr) == "run-not-protected"
    assert "`safekept checkpoint status`" in done.stderr


def test_a_report_that_could_not_be_written_is_said_before_anything_runs(bench, tmp_path):
    ran = os.path.join(str(tmp_path), "ran")
    done = bench.run(f": > {ran}", "--report", os.path.join(str(tmp_path), "no", "r.json"))
    assert done.returncode == 2 and not os.path.exists(ran)


# ── what an agent may do to us ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1", "soon"])
def test_a_quiet_time_that_is_none_starts_nothing(bench, seconds):
    done = bench.run(f": > {bench.cue('ran')}", "--quiet", seconds)
    assert done.returncode == 2 and "Invalid value for '--quiet'" in done.stderr
    assert not os.path.exists(bench.cue("ran"))


def test_an_agent_that_deletes_the_project_ends_by_itself_and_everything_comes_back(bench):
    before = tree_on_disk(bench.project)
    done = bench.run(f"cd /; rm -rf {bench.project}; exit 4")
    assert done.returncode == 4
    assert f"Gone       {bench.project} was removed while the agent ran" in done.stderr
    undo = next(line for line in printed(done.stderr) if line.startswith("safekept rollback 1"))
    assert bench.safekept(*shlex.split(undo)[1:]).returncode == 0
    assert tree_on_disk(bench.project) == before


def test_a_project_that_is_made_anew_is_watched_again(bench):
    script = (
        f"cd /; rm -rf {bench.project}; mkdir {bench.project}; cd {bench.project}; echo new > c; WAIT one"
    )
    with bench.running(script) as process:
        until(bench.holds("c", b"new\n"), "the new project")
        put(os.path.join(bench.project, "c"), "newer\n")
        until(bench.holds("c", b"newer\n"), "a change of the new project")
        bench.give("one")
        assert process.wait(DEADLINE) == 0


def test_an_agent_that_deletes_the_store_or_our_settings_is_told_of(bench):
    config = put(os.path.join(bench.here.places.user_home, ".config", "safekept", "config.toml"), "")
    put(config, "seat_belt = false\n[checkpoints]\nmax_files = 1000\n")
    script = f"rm -rf {bench.here.places.data_directory}; rm {config}; echo x > a; exit 3"
    done = bench.run(script, "--quiet", "60")
    assert done.returncode == 3
    assert "1 point that had been taken is gone: the store of checkpoints was removed" in done.stderr
    assert f"safekept's own settings were removed while the agent ran: {config}" in done.stderr


def test_a_watcher_that_is_killed_is_told_of_and_the_end_is_marked_all_the_same(bench):
    with bench.running("WAIT one; echo last > a; exit 2") as process:
        until(lambda: watchers_of(process.pid) and bench.points(), "the watcher")
        until(lambda: agents_of(process.pid), "the agent, which starts after it")
        for pid in watchers_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        bench.give("one")
        _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 2
    assert "the process that watches was ended while the agent ran" in err
    assert bench.at(bench.points("after")[0])["a"] == b"last\n"
    assert bench.journal()[1][0] == "incomplete"


def test_a_watcher_that_is_stopped_keeps_nobody_waiting(bench):
    with bench.running("TELL up; WAIT one; echo two > a; exit 4") as process:
        until(lambda: os.path.exists(bench.cue("up")), "the agent")
        (watcher,) = watchers_of(process.pid)
        os.kill(watcher, signal.SIGSTOP)
        bench.give("one")
        _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 4 and "1 file +1 -1" in said
    assert bench.at(bench.points("after")[-1])["a"] == b"two\n"


def watchers_of(parent: int) -> list[int]:
    return [pid for pid, line in children_of(parent) if "integrations.run.watcher" in line]


def agents_of(parent: int) -> list[int]:
    return [pid for pid, line in children_of(parent) if "agent.sh" in line]


def children_of(parent: int) -> list[tuple[int, str]]:
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(name)
            with open(f"/proc/{pid}/stat") as file:
                above = int(file.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{pid}/cmdline") as file:
                if above == parent:
                    found.append((pid, file.read()))
    return found


# ── signals ────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_sent_to_us_reaches_the_agent_which_answers_for_itself(bench):
    with bench.running("trap 'echo got; exit 9' TERM; TELL up; WAIT never") as process:
        until(lambda: os.path.exists(bench.cue("up")), "the agent")
        process.terminate()
        out, _ = process.communicate(timeout=DEADLINE)
    assert (process.returncode, out) == (9, "got\n")


def test_a_killed_run_leaves_its_points_and_no_watcher(bench):
    with bench.running("echo two > a; WAIT never") as process:
        until(bench.holds("a", b"two\n"), "the second point")
        watchers = watchers_of(process.pid)
        assert len(watchers) == 1
        process.kill()
        process.wait()
        until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in watchers), "the watcher's end")
        os.killpg(process.pid, signal.SIGKILL)  # the agent
    assert bench.points("after") == []  # nobody saw it end
    assert bench.safekept("status", cwd=bench.project).returncode == 0
    back = bench.safekept("rollback", "1", cwd=bench.project)
    assert back.returncode == 0, back.stderr
    assert bench.at(bench.points()[0])["a"] == b"as it was\n"


# ── at a terminal ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def at_terminal(bench, monkeypatch):
    """Runs an agent on a terminal of its own."""
    monkeypatch.chdir(bench.project)

    def make(script: str, *options: str) -> Terminal:
        words = [*bench.words(*options), *bench.agent(script)]
        return Terminal(*words, environment={**bench.environment, "TERM": "xterm"})

    return make


def test_nothing_is_said_while_the_agent_has_the_terminal(bench, at_terminal):
    with at_terminal(
        "stty raw -echo; printf FIRST; echo 2 > a; WAIT one; printf LAST; stty sane"
    ) as terminal:
        terminal.until("FIRST")
        until(bench.holds("a", b"2\n"), "a checkpoint while it runs")
        bench.give("one")
        terminal.until("[k]eep")
        terminal.type("\n")
        assert terminal.end() == 0
    assert "FIRSTLAST" in terminal.seen and terminal.seen.rstrip().endswith("Everything was kept")


def test_a_person_sees_the_difference_and_goes_back_to_before_the_run(bench, at_terminal):
    before = tree_on_disk(bench.project)
    with at_terminal("echo ruined > a; rm -r deep; exit 3") as terminal:
        terminal.until("[k]eep")
        terminal.type("d\n")
        terminal.until("2 files changed since the run began")
        assert "-as it was" in terminal.seen and "+ruined" in terminal.seen
        terminal.type("r\n")
        assert terminal.end() == 3, terminal.seen
    question = "[k]eep it, [r]oll back before the run, [c]hoose a point, see the [d]iff [k]: "
    assert terminal.seen.count(question) == 2, terminal.seen
    assert "Went back to checkpoint" in terminal.seen and "safekept undo 2" in terminal.seen
    assert tree_on_disk(bench.project) == before


def test_a_person_gets_a_project_back_that_was_deleted_under_his_feet(bench, at_terminal):
    before = tree_on_disk(bench.project)
    with at_terminal("rm -rf $PWD") as terminal:
        terminal.until("[k]eep")
        terminal.type("r\n")
        assert terminal.end() == 0, terminal.seen
    assert "was removed while the agent ran" in terminal.seen
    assert tree_on_disk(bench.project) == before


def test_a_person_chooses_a_point_and_a_wrong_one_is_asked_for_again(bench, at_terminal):
    report = os.path.join(bench.directory, "report.json")
    with at_terminal("PUT a two; WAIT one; PUT a three", "--report", report) as terminal:
        until(bench.holds("a", b"two\n"), "the pause")
        bench.give("one")
        terminal.until("[k]eep")
        terminal.type("c\n")
        terminal.until("Its number or id")
        terminal.type("99\n")
        terminal.until("  Error ")
        terminal.type("c\n")
        terminal.type("1\n")
        assert terminal.end() == 0, terminal.seen
    with open(os.path.join(bench.project, "a")) as file:
        assert file.read() == "two\n"
    with open(report) as file:
        document = json.load(file)
    assert (document["choice"], document["exit_code"], document["ran"]) == ("rolled-back", 0, True)
    assert document["account"]["changes"]["files"] == 1
    assert [one["id"] for one in document["account"]["points"]][-1] == document["checkpoint"]


def test_ctrl_c_is_the_agents_and_cuts_no_checkpoint_short(bench, at_terminal):
    with at_terminal("trap 'echo one more > a' INT; TELL up; WAIT one; echo done") as terminal:
        until(lambda: os.path.exists(bench.cue("up")), "the agent")
        terminal.type("\x03")
        until(bench.holds("a", b"one more\n"), "what it did about it")
        bench.give("one")
        terminal.until("[k]eep")
        assert terminal.interrupt() == 0, terminal.seen
    assert "Everything was kept" in terminal.seen and "done" in terminal.seen


def test_a_terminal_that_goes_away_takes_nothing_with_it(bench, at_terminal):
    with at_terminal("trap '' HUP; TELL up; WAIT one; echo last > a; exit 6") as terminal:
        until(lambda: os.path.exists(bench.cue("up")), "the agent")
        terminal.hang_up()
        bench.give("one")
        assert terminal.process.wait(DEADLINE) == 6
    assert bench.at(bench.points("after")[0])["a"] == b"last\n"
    assert bench.journal()[1][0] == "done"


def test_a_terminal_that_a_killed_agent_left_raw_can_be_answered_at(bench, at_terminal):
    with at_terminal("stty raw -echo; echo x > a; kill -9 $$") as terminal:
        terminal.until("[k]eep")
        terminal.type("k\n")
        assert terminal.end() == 128 + signal.SIGKILL
    assert "was ended by SIGKILL" in terminal.seen


def test_a_window_that_is_closed_at_the_question_keeps_everything_and_the_report(bench, at_terminal):
    report = os.path.join(bench.directory, "report.json")
    with at_terminal("echo two > a; exit 5", "--report", report) as terminal:
        terminal.until("[k]eep")
        terminal.hang_up()
        assert terminal.process.wait(DEADLINE) != 0
    with open(report) as file:
        told = json.load(file)
    assert (told["status"], told["choice"], told["account"]["files"]) == (5, "not-asked", ["a"])
    with open(os.path.join(bench.project, "a")) as file:
        assert file.read() == "two\n"
