"""The child that is the owner: what it has, what it gives, and what root believes of it."""

import itertools
import json
import os
import subprocess
import sys

import pytest

from conftest import missing_part
from safekept.core.entries import ZEROS, BytesContent, Content, Entry, EntryLost, Kind, Outcome, Remark
from safekept.core.next_step import NextStep
from safekept.core.owner import OwnerChildFailed, OwnerPipe
from safekept.core.owner.child import OwnerNotPermitted, exception_as_data, raised_from
from safekept.core.platform.copying import knows_holes
from safekept.core.sqlite import CaptureOptions
from safekept.home.as_owner import Worker
from safekept.home.as_owner.server import load_everything
from safekept.home.as_owner.wire import BadWord, entry_in, entry_out, status_in, status_out
from safekept.home.landing import Targets, land, plan_landing
from safekept.home.landing.tree import LandingThroughLink
from safekept.home.layout import load_layouts
from safekept.home.owner import worker_for
from safekept.home.scan import Selection, scan
from support.home.entry_list import EntryList
from support.home.homes import differences, make_hermes_home, tree_facts
from support.places import CHECKOUT
from support.users.unprivileged import NOBODY, as_nobody, nobodys  # noqa: F401 - a fixture

LAYOUT = load_layouts()["hermes"]


@pytest.fixture
def home(nobodys):  # noqa: F811
    if os.geteuid() != 0:
        missing_part("needs root")
    place = make_hermes_home(os.path.join(nobodys, ".hermes"))
    for parent, directories, files in os.walk(place):
        for name in (".", *directories, *files):
            os.chown(os.path.join(parent, name), NOBODY, NOBODY, follow_symlinks=False)
    return place


def child_of(home: str) -> tuple[Worker, int]:
    worker = worker_for(home)
    assert worker is not None
    return worker, worker._child._process.pid


@pytest.mark.needs("owners", "it gives files to another user")
def test_the_child_has_given_every_right_away_and_has_pipes_only(home, monkeypatch):
    monkeypatch.setenv("SAFEKEPT_VAULT_KEY", "not-for-the-child")
    held = os.open("/etc/shadow", os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        worker, pid = child_of(home)
        assert worker.do("is_directory", home) is True
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        number = str(NOBODY)
        assert status["Uid"].split() == [number] * 4 and status["Gid"].split() == [number] * 4
        assert status["Groups"].split() in ([], [number])
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
        assert status["NoNewPrivs"] == "1"
        kinds = {os.readlink(f"/proc/{pid}/fd/{one}").split(":")[0] for one in os.listdir(f"/proc/{pid}/fd")}
        assert kinds == {"pipe", "/dev/null"}
        with open(f"/proc/{pid}/environ", "rb") as file:
            assert b"not-for-the-child" not in file.read()
        assert os.stat(f"/proc/{pid}/environ").st_uid == 0, "the user it became may not look into it"
    finally:
        os.close(held)


@pytest.mark.needs("owners", "it gives files to another user")
def test_a_scan_by_the_child_gives_what_a_scan_by_its_owner_gives(home):
    def seen(source):
        found = {}
        for entry in source:
            content = b""
            if entry.kind is Kind.FILE:
                with entry.open() as opened:
                    content = b"".join(opened.chunks())
            status = entry.status
            found[entry.path] = (
                entry.kind,
                entry.mode,
                entry.mtime_ns,
                entry.target,
                entry.database,
                content,
                status and (status.st_ino, status.st_uid, status.st_ctime_ns, status.st_size),
                len(entry.beside),
            )
        return found, source.census(), source.blank(), sorted(map(str, source.remarks))

    options = CaptureOptions(scratch="/tmp", isolated=False)
    by_child = scan(home, LAYOUT, Selection(), capture=options, user_home=os.path.dirname(home))
    assert type(by_child).__name__ == "OwnersScan"
    load_everything()  # what is imported late must be imported while it can be read
    here = as_nobody(
        lambda: seen(scan(home, LAYOUT, Selection(), capture=options, user_home=os.path.dirname(home)))
    )
    assert seen(by_child) == here
    assert by_child.measure() == as_nobody(
        lambda: scan(home, LAYOUT, capture=options, user_home=os.path.dirname(home)).measure()
    )


@pytest.mark.needs("owners", "it gives files to another user")
def test_an_unreadable_file_is_a_remark_as_for_its_owner(home):
    os.chown(os.path.join(home, "SOUL.md"), 0, 0)
    os.chmod(os.path.join(home, "SOUL.md"), 0o600)
    options = CaptureOptions(scratch="/tmp", isolated=False)
    source = scan(home, LAYOUT, Selection(), capture=options, user_home=os.path.dirname(home))
    lost = {}
    for entry in source:
        if entry.kind is Kind.FILE:
            try:
                with entry.open() as content:
                    for _ in content.chunks():
                        pass
            except EntryLost as error:
                lost[error.remark.path] = error.remark.outcome
    assert lost == {"SOUL.md": Outcome.UNREADABLE}


def entries(*names: str) -> EntryList:
    def one(name: str) -> Entry:
        return Entry(
            name, Kind.FILE, 0o644, 1_000_000_000, len(name), open=lambda: BytesContent(name.encode())
        )

    return EntryList([one(name) for name in names])


@pytest.mark.needs("owners", "it gives files to another user")
def test_a_link_in_the_way_stops_the_child_as_it_stops_everybody(home):
    os.symlink("/srv", os.path.join(home, "leads"))
    source = entries("leads/away")
    with pytest.raises(LandingThroughLink) as caught:
        land(source, plan_landing(source, Targets(home=home), LAYOUT), operation="x1")
    assert "never writes through links" in caught.value.what


@pytest.mark.needs("owners", "it gives files to another user")
def test_what_a_source_cannot_give_is_lost_by_name(home):
    def lost():
        raise EntryLost(Remark("gone.md", Outcome.UNREADABLE, "its pack is damaged"))

    source = entries("there.md")
    source.entries.append(Entry("gone.md", Kind.FILE, 0o644, 1_000_000_000, 3, open=lost))
    done = land(source, plan_landing(source, Targets(home=home), LAYOUT), operation="x1", leave_lost=True)
    assert [(remark.path, remark.reason) for remark in done.remarks] == [("gone.md", "its pack is damaged")]
    assert os.path.exists(os.path.join(home, "there.md"))


@pytest.mark.needs("owners", "it gives files to another user")
def test_a_place_that_its_owner_cannot_reach_is_said_so(tmp_path):
    if os.geteuid() != 0:
        missing_part("needs root")
    place = tmp_path / "hers"  # below pytest's own directory, which is closed to her
    place.mkdir()
    os.chown(place, NOBODY, NOBODY)
    source = entries("a")
    with pytest.raises(OwnerNotPermitted) as caught:
        plan_landing(source, Targets(home=str(place)), LAYOUT)
    assert caught.value.what.startswith("`nobody` may not do that: ")
    assert caught.value.kept.startswith("Root does in a user's place only what that user may do")


@pytest.mark.needs("owners", "it gives files to another user")
def test_a_child_that_ends_is_an_error_with_a_way_on(home):
    worker, pid = child_of(home)
    os.kill(pid, 9)
    with pytest.raises(OwnerChildFailed) as caught:
        worker.do("is_directory", home)
    assert caught.value.what == "The process that works as `nobody` failed: it ended without an answer"
    again, other = child_of(home)
    assert other != pid and again.do("is_directory", home) is True


class TimeIsOver(BaseException):
    """As a scheduled run ends a step."""


@pytest.mark.parametrize("told", [KeyboardInterrupt, SystemExit, TimeIsOver])
@pytest.mark.needs("owners", "it gives files to another user")
def test_ctrl_c_in_the_middle_of_a_landing_leaves_the_home_as_it_was(home, told):
    before = tree_facts(home, databases="bytes")
    _, pid = child_of(home)

    def stop():
        raise told

    source = entries("first.md")
    source.entries.append(Entry("second.md", Kind.FILE, 0o644, 1_000_000_000, 3, open=stop))
    plan = plan_landing(source, Targets(home=home), LAYOUT)
    with pytest.raises(told):
        land(source, plan, operation="x1")
    assert differences(before, tree_facts(home, databases="bytes")) == []
    assert not os.path.exists(f"/proc/{pid}"), "it has ended, and nothing of it is left at work"
    assert os.listdir(home + ".safekept/landings") == []
    again, _ = child_of(home)
    assert again.do("is_directory", home) is True


@pytest.mark.needs("seek_data", "it counts what is read of holes")
@pytest.mark.needs("owners", "it gives files to another user")
def test_a_hole_is_a_few_questions_both_ways_whatever_its_size(home, nobodys, monkeypatch):  # noqa: F811
    """One question for each megabyte of nothing would take minutes, for a backup and for a restore."""
    assert knows_holes(), "64 GiB of nothing would be read"
    size, path = 1 << 36, os.path.join(home, "memories", "huge.bin")
    with open(path, "wb") as file:
        file.write(b"first")
        file.seek(size // 2)
        file.write(b"middle")
        file.truncate(size)
    os.chown(path, NOBODY, NOBODY)
    asked = []
    receive = OwnerPipe._answer
    send = OwnerPipe.ask
    monkeypatch.setattr(
        OwnerPipe,
        "ask",
        lambda line, name, *rest, **more: (asked.append(name), send(line, name, *rest, **more))[1],
    )
    monkeypatch.setattr(
        OwnerPipe, "_answer", lambda line, head: (asked.append(head[0]), receive(line, head))[1]
    )
    options = CaptureOptions(scratch="/tmp", isolated=False)
    source = scan(home, LAYOUT, Selection(), capture=options, user_home=os.path.dirname(home))
    found = next(entry for entry in source if entry.path == "memories/huge.bin")
    into = os.path.join(nobodys, "into")
    os.mkdir(into)
    os.chown(into, NOBODY, NOBODY)
    with found.open() as content:
        total, solid = 0, b""
        for chunk in content.chunks():
            total += len(chunk)
            solid += b"" if chunk is ZEROS else chunk
        assert total == size and solid.strip(b"\0").startswith(b"first") and b"middle" in solid

    class Stored(Content):
        """As a vault gives it."""

        def __init__(self):
            super().__init__()
            self.size, self.mtime_ns = size, 0

        def chunks(self):
            yield from itertools.repeat(ZEROS, size // len(ZEROS))

        def close(self):
            pass

    entry = Entry("memories/huge.bin", Kind.FILE, 0o600, 0, size, open=Stored, holes=size)
    stored = EntryList([entry])
    land(stored, plan_landing(stored, Targets(home=into), LAYOUT), operation="x1")
    facts = os.stat(os.path.join(into, "memories", "huge.bin"))
    assert (facts.st_size, facts.st_uid) == (size, NOBODY) and facts.st_blocks * 512 < 50 << 20
    assert asked.count("read") < 100, len(asked)


LOADED = """
import ast, importlib, os, sys
sys.path.insert(0, sys.argv[1])
importlib.import_module(sys.argv[2]).load_everything()
missing = set()
for room in sys.argv[3:]:
    for parent, _, files in os.walk(os.path.join(sys.argv[1], "safekept", room)):
        for name in files:
            path = os.path.join(parent, name)
            # Places off this host and foreground programs are nothing that is done in a home or a project.
            if not name.endswith(".py") or "/core/objects/" in path or name == "foreground.py":
                continue
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            # What only the type checker reads is imported by nobody.
            for node in ast.walk(tree):
                if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                    node.body = []
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    missing |= {one.name for one in node.names if one.name not in sys.modules}
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module not in sys.modules:
                    missing.add(node.module)
print(sorted(missing))
"""
LOADERS = {
    "safekept.home.as_owner.server": ("core", "home"),
    "safekept.checkpoints.as_owner.server": ("core", "checkpoints"),
    "safekept.cli.as_owner": (
        *("core", "checkpoints", "vault", "home", "settings"),
        *("actions/base", "actions/projects", "cli/words", "cli/commands/projects"),
    ),
}


@pytest.mark.parametrize("loader", LOADERS)
def test_everything_that_may_be_imported_later_is_loaded_before_the_rights_are_gone(loader):
    """safekept may be installed where only root can read: what is not loaded then never is."""
    source = os.path.join(CHECKOUT, "src")
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOADED, source, loader, *LOADERS[loader]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../b", "a//b", "a/", "a\0b", "."])
def test_a_name_that_leads_elsewhere_is_not_taken_from_the_child(path):
    said = entry_out(Entry(path, Kind.FILE, 0o644, 0), 1)
    with pytest.raises(BadWord):
        entry_in(said, lambda *words: ({}, b""), 1)


def test_a_status_survives_the_way():
    facts = os.stat(__file__)
    again = status_in(json.loads(json.dumps(status_out(facts))))
    assert again is not None
    for name in ("st_mode", "st_ino", "st_dev", "st_uid", "st_gid", "st_size", "st_mtime_ns", "st_ctime_ns"):
        assert getattr(again, name) == getattr(facts, name), name


def test_an_error_of_the_child_is_the_same_error_here():
    steps = ("look", NextStep("import", ("FILE", "--into", "a dir"), "Or:", ", and look"))
    error = LandingThroughLink("a link", kept="all of it", next_steps=steps, links=["/a"])
    again = raised_from(json.loads(json.dumps(exception_as_data(error))))
    assert type(again) is LandingThroughLink
    assert (again.what, again.kept, again.next_steps, again.facts) == (
        "a link",
        "all of it",
        steps,
        {"links": ["/a"]},
    )


def test_nothing_that_the_child_says_can_run_here():
    """Its words are JSON; a pickle in their place is no word."""
    code = (
        "import os,struct,pickle\n"
        "class Evil:\n"
        "    def __reduce__(self): return (os.system, ('touch /tmp/safekept-evil',))\n"
        "head = pickle.dumps(Evil())\n"
        "os.write(1, struct.pack('>BII', 2, len(head), 0) + head)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    line = OwnerPipe(
        child.stdout.fileno(),
        child.stdin.fileno(),
        encode=lambda value: json.dumps(value).encode(),
        decode=lambda data: json.loads(data),
        failure=exception_as_data,
        raised=lambda said: RuntimeError(said),
    )
    with pytest.raises(ValueError):
        line.ask("anything")
    child.communicate()
    assert not os.path.exists("/tmp/safekept-evil")
