"""`safekept demo`: a home is kept while its agent chats, broken three ways and brought back; so is a project.

Everything happens in a throwaway place with the real commands, and every claim on the screen is
checked: the demo ends with an error if a single byte or row did not come back.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import click

from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep

from ...console import Console, count_text
from ...lines import screen_width
from .home import count_messages, make_demo_home


class DemoFailed(SafekeptError):
    code = "demo-failed"


#: Of the home; everything else in it is compared byte for byte.
_DATABASES = ("state.db", "profiles/ledger/state.db")


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(as_json: bool) -> int:
    """See a home kept while its agent chats, broken three ways and brought back; then a project.

    Works in a temporary directory that is removed at the end, with the real commands, and fails if a single
    byte or row did not come back. Your own homes are not looked at.
    """
    from ...main import program

    console = Console(as_json=as_json, program=program())
    place = tempfile.mkdtemp(prefix="safekept-demo-")
    try:
        return Demo(console, place).play()
    finally:
        _remove(place)


def _remove(place: str) -> None:
    """What the demo made goes, the stores too, which are closed between two commands."""
    from safekept.core.files.belt import change_named

    for parent, names, _ in os.walk(place):
        for name in names:
            change_named(os.path.join(parent, name), writable=True)
    shutil.rmtree(place, ignore_errors=True)


class Demo:
    """One showing."""

    def __init__(self, console: Console, place: str) -> None:
        self.console = console
        self.home = os.path.join(place, ".hermes")
        self.project = os.path.join(place, "garden")
        # A world of its own: nothing of the user's settings or homes is seen or touched.
        self.environment = {
            "HOME": place,
            "HERMES_HOME": self.home,
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "SAFEKEPT_LAUNCHER": console.program,
            **{name: os.environ[name] for name in ("NO_COLOR", "TERM", "COLUMNS") if name in os.environ},
        }

    def play(self) -> int:
        facts = {**self._home_comes_back(), **self._project_comes_back()}
        self.console.document({"demo": "passed", **facts})
        self._say(
            f"\nAll of this was in a throwaway place, which is gone again. To protect this machine: "
            f"`{self.console.command('setup')}`"
        )
        return 0

    def _say(self, text: str = "") -> None:
        """What happens, in sentences that end at words."""
        self.console.line(text, 0)

    def _home_comes_back(self) -> dict[str, int]:
        say = self._say
        make_demo_home(self.home)
        say(f"A Hermes home with a persona, memories, skills, a job and two databases: {self.home}")
        with self._chatting():
            committed = count_messages(self.home)
            say(f"Its agent is chatting: {count_text(committed, 'message')} so far, and more every moment\n")
            self._safekept("snapshot", "--label", "before the update")
        before = tree_facts(self.home)
        say("\nNow three bad things happen:")
        self._break()
        for line in (
            "1. a clean-up deletes the memories and the skills",
            "2. an update leaves state.db full of zero bytes",
            "3. settings collapse to one line, and the jobs are gone",
        ):
            say(f"  {line}")
        say()
        self._safekept("snapshot", "restore", "latest", "--yes")
        facts = self._prove(before, committed)
        files, databases = facts["files"], len(_DATABASES)
        gap = " " if screen_width() else "\n"
        say(
            f"\nEverything came back, {files + databases} files: {files} byte for byte, with modes and "
            f"times, and the {databases} databases,{gap}which are sound and hold "
            f"{count_text(facts['messages'], 'message')}: the {committed:,} from before the snapshot "
            "are all among them"
        )
        return facts

    def _project_comes_back(self) -> dict[str, int]:
        say = self._say
        make_demo_project(self.project)
        say("\nThe agent also works on a project. Before it does, the project is kept:\n")
        self._safekept("checkpoint", self.project, "--reason", "before tidying up")
        before = tree_facts(self.project)
        say("\nIt tidies up in the shell: rewrites one file, deletes a directory, leaves a new file behind\n")
        with open(os.path.join(self.project, "plots.py"), "w", encoding="utf-8") as file:
            file.write("# TODO\n")
        shutil.rmtree(os.path.join(self.project, "notes"))
        with open(os.path.join(self.project, "tmp.out"), "w", encoding="utf-8") as file:
            file.write("done\n")
        self._safekept("rollback", "1", "--dir", self.project)
        self._compare(before, tree_facts(self.project))
        files = count_files(before)
        say(f"\nThe project is as it was: {count_text(files, 'file')} byte for byte")
        return {"project_files": files}

    @contextmanager
    def _chatting(self) -> Iterator[None]:
        agent = subprocess.Popen(
            [sys.executable, "-m", "safekept.cli.commands.demo.home", os.path.join(self.home, "state.db")],
            env=self.environment,
            stdout=subprocess.PIPE,
            process_group=0,  # a Ctrl-C is for the demo, which ends it
        )
        try:
            assert agent.stdout is not None
            agent.stdout.readline()
            yield
        finally:
            agent.terminate()
            agent.communicate()

    def _safekept(self, *arguments: str) -> None:
        self.console.verbatim(f"$ {self.console.program} {shlex.join(arguments)}")
        sys.stdout.flush()
        kept = subprocess.PIPE if self.console.as_json else None
        with subprocess.Popen(
            [sys.executable, "-m", "safekept", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            # The command speaks to the screen itself, with its colours and its progress.
            stdout=kept,
            stderr=kept,
            process_group=0,  # Ctrl-C is answered once, by the demo
        ) as child:
            try:
                _, errors = child.communicate()
            except KeyboardInterrupt:
                child.terminate()
                child.wait()  # what it still writes would be left behind; it ends at once
                raise
        if child.returncode != 0:
            printed = (errors or b"").decode(errors="replace").strip()
            raise _failed(
                f"`{self.console.command(arguments[0])}` ended with exit code {child.returncode}. {printed}"
            )

    def _break(self) -> None:
        for folder in ("memories", "skills"):
            shutil.rmtree(os.path.join(self.home, folder))
        database = os.path.join(self.home, "state.db")
        with open(database, "r+b") as file:
            length = os.path.getsize(database)
            file.write(bytes(length))
        with open(os.path.join(self.home, "config.yaml"), "w", encoding="utf-8") as file:
            file.write("model: {}\n")
        with open(os.path.join(self.home, "cron/jobs.json"), "w", encoding="utf-8") as file:
            file.write('{"jobs": []}')

    @staticmethod
    def _compare(before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]) -> None:
        wrong = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        if wrong:
            raise _failed(f"These did not come back as they were: {', '.join(wrong)}")

    def _prove(self, before: dict[str, tuple[object, ...]], committed: int) -> dict[str, int]:
        import sqlite3

        after = tree_facts(self.home)
        self._compare(before, after)
        for database in _DATABASES:
            connection = sqlite3.connect(os.path.join(self.home, database))
            verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
            rows = connection.execute("SELECT count(*), max(id), min(id) FROM messages").fetchone()
            connection.close()
            if verdict != "ok" or rows[0] != rows[1] or rows[2] != 1:
                raise _failed(f"{database} is not sound: {verdict}, {rows}")
        messages = count_messages(self.home)
        if messages < committed:
            raise _failed(f"{committed} messages were committed before the snapshot, {messages} came back")
        return {"files": count_files(after), "messages": messages, "committed_before": committed}


def make_demo_project(place: str) -> None:
    """A project small enough to be seen whole."""
    files = {
        "pyproject.toml": '[project]\nname = "garden"\nversion = "1"\n',
        "plots.py": "PLOTS = {12: 'floods in March', 14: 'beans'}\n",
        "notes/2026.md": "The gate code changed in May.\n",
        "notes/rota.csv": "week,who\n1,Jo\n2,Sam\n",
    }
    for path, text in files.items():
        full = os.path.join(place, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def tree_facts(home: str) -> dict[str, tuple[object, ...]]:
    """Kind, mode, time and content of everything but the databases, which are compared by their rows."""
    facts: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(home):
        for name in folders + files:
            path = os.path.join(folder, name)
            if name.startswith("state.db"):
                continue
            status = os.lstat(path)
            content = ""
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            facts[os.path.relpath(path, home)] = (status.st_mode, status.st_mtime_ns, content)
    return facts


def count_files(facts: dict[str, tuple[object, ...]]) -> int:
    return sum(1 for mode, *_ in facts.values() if not stat.S_ISDIR(int(str(mode))))


def _failed(what: str) -> DemoFailed:
    return DemoFailed(
        what,
        kept="The demo works in a place of its own; your homes were not looked at",
        next_steps=(
            NextStep(
                "demo", ("--json",), before="Please report this;", after=" shows the same in one document"
            ),
        ),
    )
