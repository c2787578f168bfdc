"""Progress at a terminal: an estimate, something that moves each second, and nothing at all elsewhere."""

from __future__ import annotations

import ast
import glob
import io
import itertools
import json
import os
import re
import sqlite3
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from safekept.actions.setup.steps import SetupChoices, set_up
from safekept.actions.setup.survey import FoundHome
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.snapshots.preview import with_estimate
from safekept.actions.vault.care import plan_vault_repair
from safekept.cli.console import Console
from safekept.cli.progress import DOING, Progress, left_text
from safekept.core.errors import SafekeptError
from safekept.core.events import Event, expecting, silent
from safekept.core.sqlite import check as checking
from safekept.core.sqlite.check import examine_aloud, verify
from safekept.core.sqlite.format import connect
from safekept.vault.storage import FileKind
from safekept.vault.write.intake import Intake
from support.commands.in_process import spoken
from support.commands.waiting import PATIENT, wait_until
from support.home.homes import make_hermes_home
from support.users.contexts import throwaway
from support.vault.memory_storage import MemoryStorage
from support.vault.vaults import new_vault, save_files, some_files
from test_map import SOURCE


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (10, 100, 10, ", about 2 min left"),
        (50, 100, 20, ", about 20 s left"),
        (60, 100, 5, ", about 5 s left"),
        (1, 100, 1, ""),  # too early for a pace
        (99, 100, 60, ""),  # not worth a word
        (0, 100, 60, ""),
        (100, 100, 60, ""),
        (60, 0, 60, ""),  # nobody knows how much there is
        (120, 100, 60, ""),
        (1, 200, 60, ", about 3 h left"),
    ],
)
def test_what_is_left_is_estimated_by_the_pace_so_far(done, total, seconds, text):
    assert left_text(done, total, seconds) == text


def test_an_expected_total_is_used_until_it_proves_too_small():
    heard = []
    listen = expecting(heard.append, "store", 100)
    for event in (
        Event("store", 40),
        Event("store", 130),
        Event("scan", 3, unit="files"),
        Event("store", 5, 9),
    ):
        listen(event)
    assert [(one.phase, one.done, one.total) for one in heard] == [
        ("store", 40, 100),
        ("store", 130, 0),
        ("scan", 3, 0),
        ("store", 5, 9),
    ]
    assert expecting(heard.append, "store", 0) == heard.append


@pytest.fixture
def database(tmp_path):
    path = str(tmp_path / "a.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a TEXT)")
        connection.executemany("INSERT INTO t VALUES (?)", [(os.urandom(600).hex(),) for _ in range(3000)])
        connection.commit()
    return path


@pytest.fixture
def slow(monkeypatch):
    """A check that has read everything, and ends when two more words of it were heard, or when it is told."""
    examine, check = checking.examine, SimpleNamespace(said=[], over=False)

    def slowly(*words):
        found, before = examine(*words), len(check.said)
        wait_until(lambda: check.over or len(check.said) >= before + 2, "a word of the check")
        return found

    monkeypatch.setattr(checking, "examine", slowly)
    return check


def test_the_check_of_a_database_says_how_far_it_is_at_least_once_a_second(database, slow):
    said = slow.said
    facts = verify(database, tell=lambda done, total: said.append((done, total)))
    size = os.path.getsize(database)
    assert facts.state == "sound"
    assert checking._BEAT <= 0.5 and len(said) >= 2
    assert all(total == size and 0 <= done < size for done, total in said), "it is over when it is over"
    assert said == sorted(said)
    if os.path.exists("/proc/self/io"):
        assert said[-1][0] > size // 4, "by what was read of it"


def test_a_quick_check_says_nothing_and_damage_is_found_as_ever(database, monkeypatch):
    monkeypatch.setattr(checking, "_BEAT", PATIENT)  # quick is what the machine is not always
    said = []
    assert verify(database, tell=lambda *words: said.append(words)).state == "sound" and said == []
    with open(database, "r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\xff" * 4096 * 4)
    assert verify(database, thorough=True, tell=lambda *words: said.append(words)).state == "damaged"


def test_ctrl_c_during_a_check_ends_it_before_the_connection_is_closed(database, slow):
    def interrupted(done, total):
        slow.over = True
        raise KeyboardInterrupt

    with closing(connect(database, "mode=ro&immutable=1")) as connection, pytest.raises(KeyboardInterrupt):
        examine_aloud(connection, "quick_check", 1, interrupted)


def test_the_screen_moves_each_second_even_where_nothing_is_said(monkeypatch):
    """The clock of a phase runs by itself: half a minute without a word does not look like a hang."""
    from rich.console import Console as RichConsole

    shown = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console", lambda **_: RichConsole(file=shown, force_terminal=True, width=100)
    )
    progress = Progress("safekept")
    progress.start()
    try:
        progress.listen(Event("check", 10, 100, path="state.db"))
        wait_until(lambda: len(set(re.findall(r"0:\d\d:\d\d", shown.getvalue()))) >= 3, "the third time")
    finally:
        progress.close()
    assert "10 B of 100 B" in shown.getvalue()


def test_an_index_that_is_made_again_says_how_far_it_is_and_how_long_it_takes(screen, monkeypatch):
    """Every pack of the vault is read for it: the longest wait there is, on the worst day."""
    with new_vault(MemoryStorage()) as vault:
        for number in range(4):
            save_files(vault, some_files(number), time_ns=number)
        packs = [size for _, size in vault.storage.list(FileKind.PACK)]
        for name, _ in list(vault.storage.list(FileKind.INDEX)):
            del vault.storage.files[f"index/{name}"]
        heard: list[Event] = []
        plan_vault_repair(vault, listener=heard.append)
    made = [one for one in heard if one.phase == "rebuild"]
    assert len(made) == len(packs) > 3 and {one.total for one in made} == {sum(packs)}
    assert [one.done for one in made] == [sum(packs[:number]) for number in range(len(packs))]
    progress, clock = Progress("safekept"), itertools.count(step=10.0)
    monkeypatch.setattr("safekept.cli.progress.time", SimpleNamespace(monotonic=lambda: next(clock)))
    progress.start()
    for one in made:
        if one.done < one.total / 2:
            progress.listen(one)
    progress.close()
    assert re.search(r"rebuilding .* of [\d.]+ KB, about \d+ (s|min) left", screen.getvalue()), (
        screen.getvalue()
    )


def drawn_phases():
    """The phases that the code draws: those of events without a sentence."""
    for path in glob.glob(os.path.join(SOURCE, "**", "*.py"), recursive=True):
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Event" and node.args:
                phase, told = node.args[0], [one.arg for one in node.keywords]
                if isinstance(phase, ast.Constant) and "text" not in told:
                    yield phase.value


def test_before_every_bar_stands_what_is_done_and_no_amount_where_nothing_is_counted(screen):
    assert set(drawn_phases()) - set(DOING) == set()
    progress = Progress("safekept")
    progress.start()
    progress.listen(Event("test"))
    progress.close()
    assert "trying place" in screen.getvalue() and "0 B" not in screen.getvalue()


def test_nothing_of_it_is_said_where_nobody_watches(monkeypatch, capsys):
    console = Console(as_json=False)
    assert not console.draws()
    listen = console.listener()
    for event in (
        Event("check", 1, 2),
        Event("store", 5),
        Event("rebuild", 1, 2),
        Event("copy", 1, 2, "pages"),
    ):
        listen(event)
    assert capsys.readouterr() == ("", "")


def test_a_snapshot_is_estimated_by_the_last_one_and_the_first_by_a_look(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    heard: list[Event] = []
    monkeypatch.setattr(Console, "draws", lambda _: True)
    monkeypatch.setattr(Console, "listener", lambda _: heard.append)
    monkeypatch.setattr(Intake, "_show_progress", Intake._say)
    say = spoken(monkeypatch, here.places.user_home)
    size = 0
    for _ in range(2):
        heard.clear()
        document = json.loads(say("snapshot", "--json").out)
        stored = [one for one in heard if one.phase == "store" and not one.text]
        assert stored and all(0 < one.total < 4 * document["bytes"] for one in stored)
        assert all(one.done <= one.total for one in stored)
        if size:
            assert {one.total for one in stored} == {size}, "as large as the last time"
        size = document["bytes"]
        with open(os.path.join(home, "SOUL.md"), "w", encoding="utf-8") as file:
            file.write("less\n")


def test_an_archive_is_estimated_by_the_last_one_and_the_first_by_a_look(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    with open(os.path.join(home, "memories", "large.md"), "wb") as file:
        file.truncate(20 << 20)  # an archive says something every few megabytes
    heard: list[Event] = []
    monkeypatch.setattr(Console, "draws", lambda _: True)
    monkeypatch.setattr(Console, "listener", lambda _: heard.append)
    say = spoken(monkeypatch, here.places.user_home)
    for _ in range(2):
        heard.clear()
        document = json.loads(say("backup", "--json").out)
        stored = [one for one in heard if one.phase == "store" and not one.text]
        assert len(stored) > 2, "on the way, and at the end"
        assert all(0 < one.done <= one.total < 4 * document["bytes"] for one in stored)


def test_the_snapshots_of_setup_are_estimated_where_somebody_watches(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    monkeypatch.setattr(Intake, "_show_progress", Intake._say)
    for watched in (False, True):
        heard: list[Event] = []
        place = throwaway(tmp_path / str(watched)).changed(user_home=here.places.user_home)
        wishes = SetupChoices(homes=(FoundHome(place.locate(home)),), watched=watched)
        set_up(place, wishes, listener=heard.append)
        stored = [one for one in heard if one.phase == "store" and not one.text]
        assert stored and all((one.total > 0) is watched for one in stored)


def test_what_keeps_an_estimate_from_being_made_is_said_by_the_snapshot(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    request = SnapshotRequest(here.locate(home))
    inside = here.changed(vault=os.path.join(home, "vault"))
    listener = with_estimate(inside, request, silent)
    with pytest.raises(SafekeptError) as caught:
        create_snapshot(inside, request, listener)
    assert caught.value.code == "vault-inside-home"


@pytest.fixture
def screen(monkeypatch):
    """What a bar draws on."""
    from rich.console import Console as RichConsole

    shown = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console", lambda **_: RichConsole(file=shown, force_terminal=True, width=80)
    )
    return shown


def test_a_line_of_the_result_takes_the_bar_away_and_what_follows_draws_it_again(screen, monkeypatch):
    progress = Progress("safekept")
    monkeypatch.setattr(Console, "_progress", progress)
    progress.start()
    progress.listen(Event("scan", 3, unit="files"))
    said = []
    monkeypatch.setattr("click.echo", lambda text, **_: said.append((text, screen.getvalue())))
    Console(as_json=False).line("Taking back the rollback")
    (text, before) = said[0]
    assert text == "Taking back the rollback" and before.endswith("\x1b[2K"), "the bar was wiped before it"
    progress.listen(Event("scan", 4, unit="files"))
    Console.finish()
    assert "4 files" in screen.getvalue()[len(before) :] and screen.getvalue().endswith("\x1b[2K")
    ended = screen.getvalue()
    progress.listen(Event("scan", 5, unit="files"))  # from a thread that was not told
    assert screen.getvalue() == ended


def test_nothing_is_drawn_over_a_question_and_the_work_after_it_is_drawn_again(screen, monkeypatch, capsys):
    progress = Progress("safekept")
    monkeypatch.setattr(Console, "_progress", progress)
    progress.start()
    progress.listen(Event("read"))
    with Console.asking():
        Console(as_json=False).say("To open it, type your passphrase.")
        asked = screen.getvalue()
        assert asked.endswith("\x1b[2K"), "the bar was wiped"
        progress.listen(Event("store", 4, unit="files"))  # from a thread at work
        assert screen.getvalue() == asked
    progress.listen(Event("open"))
    Console.finish()
    assert "opening" in screen.getvalue()[len(asked) :]


def test_a_large_new_file_moves_the_amount_while_it_is_stored(tmp_path):
    here = throwaway(tmp_path)
    home = make_hermes_home(os.path.join(here.places.user_home, ".hermes"), profiles=(), awkward=False)
    place = here.locate(home)
    create_snapshot(here, SnapshotRequest(place))
    with open(os.path.join(home, "large.bin"), "wb") as file:
        for number in range(6):
            file.write(os.urandom(1 << 20) * 4 + bytes([number]))
    heard = []

    def slowly(event):
        if event.phase == "store" and not event.text:
            heard.append(event)
            time.sleep(0.11)

    create_snapshot(here, SnapshotRequest(place), slowly)
    within = [one for one in heard if one.path == "large.bin"]
    assert len(within) > 2 and [one.done for one in within] == sorted({one.done for one in within})
    assert not [one for one in heard if one.total and one.done > one.total], "no total that is too small"


def test_a_bar_that_outgrew_what_was_expected_moves_on_and_its_clock_runs(monkeypatch):
    """Of a home that grew a lot: the bar stood full from the start, and the clock at 0:00:00."""
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress("safekept")
    listen = expecting(progress.listen, "store", 100)
    try:
        for done in (40, 130, 5000):
            listen(Event("store", done))
        (task,) = progress._bars.tasks
        assert (task.completed, task.total, task.finished) == (5000, None, False)
        assert task.elapsed is not None and task.finished_time is None
        listen(Event("store", 5000, 9000))
        assert progress._bars.tasks[0].total == 9000
    finally:
        progress.close()
