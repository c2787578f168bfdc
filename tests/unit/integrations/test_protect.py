"""What a call comes to: the old bytes are kept in the right place, and whatever is not kept is said."""

from __future__ import annotations

import dataclasses
import os

import pytest

from safekept.actions.hosts.calls import read_host_calls
from safekept.actions.hosts.sessions import read_session, set_switch
from safekept.actions.projects.home_points import take as home_points
from safekept.checkpoints.store.store import Store
from safekept.integrations import home_paths
from safekept.integrations import protect as protecting
from safekept.integrations.calls import KINDS, Call
from safekept.integrations.protect import Outcome, Place, protect
from support.hosts.throwaway_helper import throwaway
from support.projects.checkpoints import contents_in_store, put


@pytest.fixture
def user(tmp_path):
    return throwaway(tmp_path)


@pytest.fixture
def place(user):
    return Place.load(user.environment)


def held(user, project: str) -> list[tuple[str, str, str, bytes]]:
    """Kind, session, turn and the content of a.txt, newest first."""
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        return [
            (point.kind, point.session, point.turn, contents_in_store(store, point).get("a.txt", b""))
            for point in store.checkpoints(project)
        ]


# ── calls ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_comes_back_from_the_wire_as_it_was():
    call = Call(
        "before", "codex", "Bash", ("a", "b"), True, "/d", "s", "t", "sub", "why", "/h", "a container", True
    )
    assert Call.from_dict(call.as_dict()) == call
    assert Call.from_dict(Call("turn", "mcp").as_dict()) == Call("turn", "mcp")


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "dance", "host": "x"},
        {"kind": 7, "host": [], "paths": "a", "shell": "yes", "session": {}, "turn": None},
        {"kind": "before", "paths": [1, None, {"a": 1}], "shell": 1},
        {"unknown": "key"},
    ],
)
def test_what_makes_no_sense_in_a_call_is_as_if_it_was_not_said(document, place):
    call = Call.from_dict(document)
    assert call.kind in KINDS and call.paths == () and call.shell is False
    assert protect(call, place).failures == ()


# ── before and after ───────────────────────────────────────────────────────────────────────────────


def test_a_turn_without_a_name_gets_one_and_each_has_its_own_full_pass(user, place):
    project = user.project()
    edit = Call("before", "opencode", "edit", ("other.txt",), directory=project, session="s")
    protect(Call("turn", "opencode", session="s"), place)
    protect(edit, place)
    put(os.path.join(project, "a.txt"), "second\n")  # by a shell that nobody saw
    protect(edit, place)
    assert {row[3] for row in held(user, project)} == {b"first\n"}, "one full pass in a turn"
    protect(Call("turn", "opencode", session="s"), place)
    protect(edit, place)
    rows = held(user, project)
    assert rows[0][3] == b"second\n", "the next turn looks again"
    assert rows[0][2] and rows[1][2] and rows[0][2] != rows[1][2]


def test_the_end_of_a_turn_is_marked_with_its_name(user, place):
    project = user.project()
    protect(Call("turn", "gemini", session="s"), place)
    protect(Call("before", "gemini", "write_file", ("a.txt",), directory=project, session="s"), place)
    put(os.path.join(project, "a.txt"), "second\n")
    protect(Call("end", "gemini", directory=project, session="s"), place)
    after, before = held(user, project)
    assert (after[0], after[3]) == ("after", b"second\n")
    assert (before[0], before[3]) == ("before", b"first\n")
    assert after[2] == before[2] != ""


def test_where_a_session_works_is_remembered_but_not_that_it_works_in_its_own_home(user, place):
    project, home = user.project(), os.path.join(user.home, ".hermes")
    put(os.path.join(home, "config.yaml"), "")
    put(os.path.join(home, "SOUL.md"), "me\n")
    place = Place.load(user.environment)
    protect(Call("before", "hermes", "terminal", shell=True, directory=project, session="s"), place)
    assert read_session(place.data_directory, "s").directory == project
    protect(Call("before", "hermes", "terminal", shell=True, directory=home, session="s"), place)
    protect(Call("before", "hermes", "terminal", shell=True, directory="", session="s"), place)
    assert read_session(place.data_directory, "s").directory == project


def test_the_subagent_is_named_in_the_reason(user, place):
    project = user.project()
    call = Call("before", "claude-code", "Write", ("a.txt",), directory=project, agent="explorer")
    protect(call, place)
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        assert store.checkpoints(project)[0].reason == "before Write a.txt (by explorer)"


def test_names_that_are_none_are_said_and_the_others_are_kept(user, place):
    project = user.project()
    names = ("a.txt", "", "b\0", "\ud800", "x" * 5000)
    outcome = protect(Call("before", "codex", "apply_patch", names, directory=project), place)
    assert outcome.checkpoints and held(user, project)[0][3] == b"first\n"
    assert {one.path for one in outcome.skipped if one.reason == "name"} == {"", "b\0", "\ud800"}
    assert all(one.detail for one in outcome.skipped)


def test_a_place_out_of_reach_is_said_and_nothing_of_this_machine_is_taken_for_it(user, place):
    project = user.project()
    call = Call(
        "before", "hermes", "terminal", ("a.txt",), shell=True, directory=project, out_of_reach="a container"
    )
    outcome = protect(call, place)
    assert outcome.checkpoints == () and not outcome.complete
    assert [(one.path, one.reason) for one in outcome.skipped] == [("a.txt", "out-of-reach")]
    assert not os.path.exists(os.path.join(user.data, "checkpoints"))


def test_whatever_is_raised_within_is_a_failure_and_not_an_exception(user, place, monkeypatch):
    def fall(*words: object) -> Outcome:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(protecting, "_before", fall)
    outcome = protect(Call("before", "codex", "Bash", shell=True, directory=user.home), place)
    assert [one.what for one in outcome.failures] == ["ZeroDivisionError: of all things"]
    [host] = read_host_calls(place.context)
    assert host.failing and host.last_failure["what"] == "ZeroDivisionError: of all things"


def test_text_of_a_host_is_cut_and_cleaned_before_it_is_stored(user, place):
    project = user.project()
    call = Call(
        "before",
        "codex",
        "Bash",
        shell=True,
        directory=project,
        session="s\0\ud800" * 500,
        reason="before Bash: echo \x1b[31m" + "x" * 10_000,
    )
    assert protect(call, place).failures == ()
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        [point] = store.checkpoints(project)
    assert len(point.session) <= 200 and len(point.reason) <= 200
    assert point.reason.isprintable() and point.session.isprintable()


# ── the switch ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("variable", "said", "off"),
    [
        ("", None, False),
        ("0", None, True),
        ("off", None, True),
        ("1", None, False),
        ("0", True, False),
        ("1", False, True),
        ("", False, True),
        ("maybe", None, False),
    ],
)
def test_what_was_said_in_the_session_holds_before_the_variable(tmp_path, variable, said, off):
    user = throwaway(tmp_path, **({"SAFEKEPT_CHECKPOINTS": variable} if variable else {}))
    place = Place.load(user.environment)
    if said is not None:
        set_switch(user.data, "s", said)
    project = user.project()
    outcome = protect(Call("before", "codex", "Bash", shell=True, directory=project, session="s"), place)
    assert outcome.off is off and bool(outcome.checkpoints) is not off
    other = protect(Call("before", "codex", "Bash", shell=True, directory=project, session="other"), place)
    assert other.off is (variable in ("0", "off")), "another session is not meant"


def test_a_switch_that_is_neither_on_nor_off_is_said_at_the_start_of_a_session(tmp_path):
    place = Place.load(throwaway(tmp_path, SAFEKEPT_CHECKPOINTS="maybe").environment)
    [notice] = protect(Call("session-start", "codex", session="s"), place).notices
    assert notice == "SAFEKEPT_CHECKPOINTS is `maybe`, which is neither 0 nor 1: checkpoints are taken"


def test_a_session_that_begins_hears_that_the_last_one_was_not_protected(user, place):
    start = Call("session-start", "codex", session="s")
    assert protect(start, place).notices == ()
    way = put(os.path.join(user.data, "checkpoints"), "in the way")
    call = Call("before", "codex", "Bash", shell=True, directory=user.project(), session="s")
    [failure] = protect(call, place).failures
    [notice] = protect(start, place).notices
    assert notice == f"the last time, codex was not protected: {failure.what}" and way in notice
    assert protect(Call("session-start", "gemini", session="s"), place).notices == ()
    os.unlink(way)
    assert protect(call, place).complete
    assert protect(Call("session-start", "codex", session="next"), place).notices == ()


# ── homes ──────────────────────────────────────────────────────────────────────────────────────────


def test_files_of_an_agents_home_go_into_a_home_point_and_a_project_in_it_stays_a_project(user, monkeypatch):
    monkeypatch.setattr("safekept.integrations.in_process.run_apart", lambda call, _: None)
    home = os.path.join(user.home, ".claude")
    put(os.path.join(home, "settings.json"), "{}")
    put(os.path.join(home, "skills", "mine", "SKILL.md"), "old")
    put(os.path.join(home, "work", "tool", ".git", "HEAD"), "")
    put(os.path.join(home, "work", "tool", "main.py"), "x")
    place = Place.load(user.environment)
    names = ("skills/mine/SKILL.md", "work/tool/main.py")
    call = Call("before", "claude-code", "Write", names, directory=home, session="s")
    outcome = protect(call, place)
    assert outcome.failures == () and outcome.home_point and len(outcome.checkpoints) == 1
    with Store.open(os.path.join(user.data, "checkpoints")) as store:
        assert set(store.projects()) == {os.path.realpath(os.path.join(home, "work", "tool"))}


def test_a_home_that_the_vault_cannot_take_is_kept_by_name(user, monkeypatch):
    home = os.path.join(user.home, ".claude")
    note = put(os.path.join(home, "CLAUDE.md"), "old")
    place = Place.load(user.environment)

    def refuse(*words: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safekept.actions.projects.home_points.take.before_home_change", refuse)
    outcome = protect(Call("before", "claude-code", "Write", (note,), session="s"), place)
    assert [one.what for one in outcome.failures] == ["No space left on device"]
    assert outcome.home_point == "" and len(outcome.checkpoints) == 1


def test_of_two_homes_the_one_that_the_vault_cannot_take_is_kept_by_name(user, monkeypatch):
    notes = [put(os.path.join(user.home, home, "NOTE.md"), "old") for home in (".claude", ".codex")]
    place = Place.load(user.environment)
    take = home_points.before_home_change

    def refuse_one(context, home, *words, **more):
        if home.endswith(".codex"):
            raise OSError(28, "No space left on device")
        return take(context, home, *words, **more)

    monkeypatch.setattr(home_points, "before_home_change", refuse_one)
    outcome = protect(Call("before", "claude-code", "Write", tuple(notes), session="s"), place)
    assert outcome.home_point and len(outcome.checkpoints) == 1
    assert [one.project for one in outcome.failures] == [os.path.realpath(os.path.dirname(notes[1]))]


def test_the_end_of_a_session_is_left_to_another_process_where_there_is_a_home(user, monkeypatch):
    started: list[Call] = []
    monkeypatch.setattr("safekept.integrations.in_process.run_apart", lambda call, _: started.append(call))
    end = Call("session-end", "claude-code", session="s")
    protect(end, Place.load(user.environment))
    assert started == [], "no home, nothing to keep"
    put(os.path.join(user.home, ".claude", "settings.json"), "{}")
    place = Place.load(user.environment)
    protect(end, place)
    assert started == [end]
    taken: list[str] = []
    monkeypatch.setattr(home_paths, "snapshot_at_end", lambda call, place: taken.append(call.host) or ())
    protect(end, dataclasses.replace(place, apart=True))
    assert taken == ["claude-code"] and started == [end]


def test_work_behind_a_call_is_no_call_of_the_host(user, monkeypatch):
    """Else a host that calls no more looks alive for as long as the last snapshot takes."""
    put(os.path.join(user.home, ".claude", "settings.json"), "{}")
    place = Place.load(user.environment)
    protect(Call("turn", "claude-code", session="s"), place)
    (before,) = read_host_calls(place.context)
    monkeypatch.setattr(home_paths, "snapshot_at_end", lambda call, place: ())
    protect(Call("session-end", "claude-code", session="s"), dataclasses.replace(place, apart=True))
    assert read_host_calls(place.context) == (before,)
