"""Home points: what an agent is about to change in its own home is kept first, and comes back exactly."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import shutil
import sqlite3
import time

import pytest

from safekept.actions.base.context import HomeRef, UserContext
from safekept.actions.projects.home_points import last_points as home_point_memory
from safekept.actions.projects.home_points import paths as home_point_paths
from safekept.actions.projects.home_points import take as home_points
from safekept.actions.projects.home_points.paths import HomePointTooLarge, OutsideHome, unknown_paths
from safekept.actions.projects.home_points.point import HomePoint, NotInHomePoint
from safekept.actions.projects.home_points.rollback import HomeRollback, HomeRollbackRequest, roll_back_home
from safekept.actions.projects.home_points.take import before_home_change, snapshot_if_due
from safekept.actions.projects.home_points.timeline import home_around, home_timeline
from safekept.actions.projects.home_points.timeline import home_points as listed_points
from safekept.actions.projects.points import HOME, Points
from safekept.actions.projects.project import NoCheckpointsHere
from safekept.actions.snapshots.choosing import choose, latest
from safekept.actions.snapshots.create import SnapshotRequest, create_snapshot
from safekept.actions.snapshots.listing import list_home
from safekept.actions.status.recent import recent
from safekept.actions.undo.undo import UndoRequest, take_back
from safekept.actions.vault.opening import open_vault
from safekept.core.objects.errors import PlaceUnreachable
from safekept.vault.care.retention import DEFAULT_POLICIES, plan_forget
from safekept.vault.errors import NoSuchSnapshot, VaultLocked, VaultUnreachable
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.read.homes import snapshot_source
from safekept.vault.snapshots import list_snapshots
from support.home.homes import make_hermes_home, tree_facts
from support.users.contexts import throwaway


@pytest.fixture
def user(tmp_path: object) -> UserContext:
    context = throwaway(tmp_path)
    make_hermes_home(os.path.join(context.places.user_home, ".hermes"), profiles=("coder",), awkward=False)
    return context


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file had been written long ago."""
    monkeypatch.setattr(home_point_memory, "RACY_NS", -(10**18))


def home_of(user: UserContext) -> str:
    return os.path.join(user.places.user_home, ".hermes")


def keep(user: UserContext, *paths: str, **facts: str) -> HomePoint:
    return before_home_change(user, home_of(user), "hermes", paths, **facts)


def back(user: UserContext, point: HomePoint, *files: str, dry_run: bool = False) -> HomeRollback:
    return roll_back_home(user, HomeRollbackRequest(point.id, files, home_of(user), dry_run))


def named_point(user: UserContext, directory: str, word: str) -> str:
    with Points(user, directory) as points:
        target = points.resolve(word)
    assert target.kind == HOME
    return target.id


def last_home_rollback(user: UserContext, directory: str) -> str:
    with Points(user, directory) as points, contextlib.suppress(NoCheckpointsHere):
        return points.last_rollback().id
    return ""


def write(user: UserContext, path: str, text: str) -> None:
    full = os.path.join(home_of(user), path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w") as file:
        file.write(text)


def read(user: UserContext, path: str) -> str:
    with open(os.path.join(home_of(user), path)) as file:
        return file.read()


def snapshots(user: UserContext) -> list[Snapshot]:
    with open_vault(user) as repository:
        return list_snapshots(repository)[0]


# ── what is kept ───────────────────────────────────────────────────────────────────────────────────


def test_a_point_holds_the_old_bytes_and_says_of_what_for_whom_and_why(user: UserContext) -> None:
    point = keep(
        user, "cron/jobs.json", reason="before cronjob: create", session="s1", turn="t7", host="hermes"
    )
    (snapshot,) = snapshots(user)
    assert snapshot.id == point.id and "kind:pre-change" in snapshot.tags
    assert snapshot.extra["safekept_point"] == {
        "version": 1,
        "paths": ["cron/jobs.json"],
        "absent": [],
        "missing": [],
        "reason": "before cronjob: create",
        "session": "s1",
        "turn": "t7",
        "host": "hermes",
        "undo": False,
    }
    with open_vault(user) as repository:
        source, manifest = snapshot_source(repository, snapshot)
        node = source.node("cron/jobs.json")
        assert node is not None and manifest is not None
        with source.content("cron/jobs.json", node) as content:
            assert b"".join(content.chunks()).decode() == read(user, "cron/jobs.json")
        # The small state files come along; what is large, live or not asked for does not.
        assert source.node("memories/MEMORY.md") is not None and source.node("config.yaml") is not None
        assert source.node("state.db") is None and source.node("skills") is None
        assert any(one["path"] == "state.db" and "database" in one["reason"] for one in manifest["remarks"])


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_skill_is_kept_whole_and_comes_back_exactly(user: UserContext) -> None:
    home = home_of(user)
    os.symlink("SKILL.md", os.path.join(home, "skills/keeper/link"))
    os.chmod(os.path.join(home, "skills/keeper/venv"), 0o750)
    before = tree_facts(home)
    point = keep(user, os.path.join(home, "skills/keeper"), reason="before skill_manage: delete")
    shutil.rmtree(os.path.join(home, "skills/keeper"))
    outcome = back(user, point)
    assert outcome.complete and not outcome.remove
    after = tree_facts(home)
    # The directory above got an entry back, so its own time is another; nothing else is.
    assert {path for path in before if before[path] != after.get(path)} <= {"skills"}
    assert before.keys() == after.keys()


def test_what_was_not_there_is_remembered_and_goes_again_and_is_not_lost(user: UserContext) -> None:
    point = keep(user, "skills/fresh", "cron/jobs.json", reason="before skill_manage: create")
    assert point.absent == ("skills/fresh",)
    write(user, "skills/fresh/SKILL.md", "new\n")
    write(user, "skills/fresh/scripts/run.sh", "echo\n")
    before = tree_facts(home_of(user))
    outcome = back(user, point)
    assert outcome.remove == ("skills/fresh/SKILL.md", "skills/fresh/scripts/run.sh")
    assert not os.path.lexists(os.path.join(home_of(user), "skills/fresh"))
    take_back(user, UndoRequest(operation=outcome.operation))
    assert {path for path, fact in tree_facts(home_of(user)).items() if before.get(path) != fact} <= {
        "skills"
    }
    # And a second way: the point that was taken before going back.
    held = [one for one in listed_points(user, every=True) if one.undo]
    assert [one.id for one in held] == [outcome.undo_point]


def test_directories_that_had_to_be_made_for_it_go_too_unless_something_else_is_in_them(
    user: UserContext,
) -> None:
    home = home_of(user)
    point = keep(user, "skills/category/deep/fresh")
    write(user, "skills/category/deep/fresh/SKILL.md", "new\n")
    write(user, "skills/category/other.md", "mine\n")
    back(user, point)
    assert os.listdir(os.path.join(home, "skills/category")) == ["other.md"]
    os.unlink(os.path.join(home, "skills/category/other.md"))
    outcome = back(user, point)
    assert not os.path.lexists(os.path.join(home, "skills/category"))
    take_back(user, UndoRequest(operation=outcome.operation))
    assert os.listdir(os.path.join(home, "skills/category")) == []


def test_only_the_named_paths_are_touched(user: UserContext) -> None:
    point = keep(user, "cron/jobs.json")
    for path in ("cron/jobs.json", "memories/MEMORY.md", "config.yaml"):
        write(user, path, "changed\n")
    assert back(user, point).replace == ("cron/jobs.json",)
    assert read(user, "memories/MEMORY.md") == read(user, "config.yaml") == "changed\n"
    assert json.loads(read(user, "cron/jobs.json"))["jobs"]


def test_one_file_of_a_point_comes_back_alone(user: UserContext) -> None:
    point = keep(user, "skills/keeper")
    write(user, "skills/keeper/SKILL.md", "x")
    write(user, "skills/keeper/venv/notes.md", "x")
    assert back(user, point, "skills/keeper/SKILL.md").replace == ("skills/keeper/SKILL.md",)
    assert read(user, "skills/keeper/venv/notes.md") == "x"
    with pytest.raises(NotInHomePoint) as raised:
        back(user, point, "config.yaml")
    assert raised.value.what == (
        f"`config.yaml` is not among what home point {point.short} is about: `skills/keeper`"
    )
    assert raised.value.kept == "Nothing was changed"
    assert raised.value.advice() == (f"See what it would change: `safekept rollback {point.short} --diff`",)


def test_a_dry_run_changes_nothing_and_takes_nothing(user: UserContext) -> None:
    point = keep(user, "cron/jobs.json")
    write(user, "cron/jobs.json", "{}")
    count = len(snapshots(user))
    assert back(user, point, dry_run=True).replace == ("cron/jobs.json",)
    assert read(user, "cron/jobs.json") == "{}" and len(snapshots(user)) == count


def test_nothing_named_means_what_a_person_would_miss(user: UserContext) -> None:
    named = unknown_paths(home_of(user), user.layout("hermes"))
    assert {"skills", "memories", "config.yaml", "SOUL.md", "profiles/coder/skills"} <= set(named)
    assert not [path for path in named if path.endswith(".db")]
    assert not [one for one in named for other in named if one.startswith(other + "/")]
    point = before_home_change(user, home_of(user), "hermes", [home_of(user)])
    assert point.paths == named
    write(user, "SOUL.md", "gone mad\n")
    shutil.rmtree(os.path.join(home_of(user), "skills"))
    write(user, "plugins/evil/__init__.py", "bad\n")
    outcome = back(user, point)
    assert "plugins/evil/__init__.py" in outcome.remove and "SOUL.md" in outcome.replace
    assert os.path.isdir(os.path.join(home_of(user), "skills/keeper"))


@pytest.mark.needs("names", "it makes names that not every disk holds")
def test_names_that_look_like_patterns_or_are_no_text_are_only_names(user: UserContext) -> None:
    names = ["skills/a*b/SKILL.md", "skills/x\\y/n?[1].md", "skills/new\nline.md", "skills/**/z.md"]
    names.append(os.fsdecode(b"skills/raw-\xff.md"))
    for name in names:
        write(user, name, name.encode("utf-8", "replace").decode())
    write(user, "skills/aXb/SKILL.md", "another\n")
    points = [keep(user, name) for name in names]
    for name in names:
        os.unlink(os.path.join(home_of(user), name))
    os.unlink(os.path.join(home_of(user), "skills/aXb/SKILL.md"))
    for name, point in zip(names, points, strict=True):
        assert point.paths == (name,)
        assert back(user, point).create == (name,)
        assert read(user, name) == name.encode("utf-8", "replace").decode()
    assert not os.path.exists(os.path.join(home_of(user), "skills/aXb/SKILL.md"))
    assert {one.paths[0] for one in listed_points(user)} == set(names)


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_link_in_the_way_is_followed_to_where_the_file_really_is(user: UserContext) -> None:
    os.symlink("skills", os.path.join(home_of(user), "tools"))
    assert keep(user, "tools/keeper/SKILL.md").paths == ("skills/keeper/SKILL.md",)
    outside = os.path.join(user.places.user_home, "elsewhere")
    os.makedirs(outside)
    os.symlink(outside, os.path.join(home_of(user), "skills/away"))
    with pytest.raises(OutsideHome) as raised:
        keep(user, "skills/away/SKILL.md")
    assert raised.value.what == f"`skills/away/SKILL.md` does not lie in the home `{home_of(user)}`"
    assert raised.value.kept == "Nothing was stored or changed"
    assert raised.value.advice() == (
        "Take a checkpoint of the project it belongs to: `safekept checkpoint DIR`",
    )
    # The link itself is a part of the home, and comes back as one.
    point = keep(user, "skills/away")
    os.unlink(os.path.join(home_of(user), "skills/away"))
    back(user, point)
    assert os.readlink(os.path.join(home_of(user), "skills/away")) == outside


@pytest.mark.parametrize("path", ["", "../x", "/etc/passwd"])
def test_a_path_outside_is_refused(user: UserContext, path: str) -> None:
    with pytest.raises(OutsideHome):
        keep(user, path)
    assert not os.path.exists(user.places.vault)


def test_what_would_hold_a_tool_call_up_is_refused_and_said(
    user: UserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_point_paths, "_MOST_FILES", 3)
    with pytest.raises(HomePointTooLarge) as raised:
        keep(user, "skills")
    assert raised.value.what == (
        f"`skills` in `{home_of(user)}` holds too much to be stored before every change of it: "
        "more than 3 files or 128 MB"
    )
    assert raised.value.advice() == ("Take a snapshot of the whole home before: `safekept snapshot`",)


# ── databases ──────────────────────────────────────────────────────────────────────────────────────


def test_no_database_is_opened_that_nobody_named(user: UserContext, monkeypatch: pytest.MonkeyPatch) -> None:
    from safekept.home.scan.opener import Opener

    def refuse(*given: object) -> None:
        raise AssertionError("a database was opened before a tool call")

    monkeypatch.setattr(Opener, "database", refuse)
    point = keep(user, "cron/jobs.json")
    assert point.taken


@pytest.mark.needs("times", "it looks at times finer than a second")
def test_a_database_among_the_files_is_kept_but_never_replaced_or_removed(user: UserContext) -> None:
    path = os.path.join(home_of(user), "skills/keeper/notes.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("create table t (x)")
        connection.commit()
    point = keep(user, "skills/keeper", "skills/later")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("insert into t values (1)")
        connection.commit()
    os.makedirs(os.path.join(home_of(user), "skills/later"))
    with contextlib.closing(
        sqlite3.connect(os.path.join(home_of(user), "skills/later/new.db"))
    ) as connection:
        connection.execute("create table t (x)")
        connection.commit()
    write(user, "skills/keeper/SKILL.md", "x")
    outcome = back(user, point)
    assert outcome.replace == ("skills/keeper/SKILL.md",)
    assert not outcome.complete
    assert dict(outcome.left) == {
        "skills/keeper/notes.db": "a database: it stays as it is; regular snapshots hold it",
        "skills/later/new.db": "a database: it stays as it is; regular snapshots hold it",
    }
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from t").fetchone() == (1,)


# ── how often, how long, how many ──────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("settled")
@pytest.mark.needs("modes", "it looks at modes")
def test_the_same_again_is_the_same_point_until_something_changes(user: UserContext) -> None:
    first = keep(user, "cron/jobs.json", "skills/keeper", turn="1")
    again = keep(user, "skills/keeper", "cron/jobs.json", turn="1")
    assert (again.id, again.taken) == (first.id, False) and len(snapshots(user)) == 1
    assert keep(user, "skills/keeper", turn="1").id != first.id  # other paths
    write(user, "skills/keeper/venv/notes.md", "changed\n")
    assert keep(user, "cron/jobs.json", "skills/keeper", turn="1").taken
    os.unlink(os.path.join(home_of(user), "skills/keeper/venv/notes.md"))
    assert keep(user, "cron/jobs.json", "skills/keeper", turn="1").taken
    os.chmod(os.path.join(home_of(user), "cron/jobs.json"), 0o600)
    assert keep(user, "cron/jobs.json", "skills/keeper", turn="1").taken


@pytest.mark.needs("modes", "it looks at modes")
def test_what_is_remembered_is_private(user: UserContext) -> None:
    keep(user, "cron/jobs.json")
    directory = os.path.join(user.places.data_directory, "home-points")
    (name,) = os.listdir(directory)
    assert os.stat(directory).st_mode & 0o777 == 0o700
    assert os.stat(os.path.join(directory, name)).st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("settled")
def test_a_point_that_is_gone_from_the_vault_is_taken_anew(user: UserContext) -> None:
    first = keep(user, "cron/jobs.json")
    os.unlink(os.path.join(user.places.vault, "snapshots", first.id))
    second = keep(user, "cron/jobs.json")
    assert second.taken and second.id != first.id


def test_what_was_written_a_moment_ago_is_never_taken_for_unchanged(user: UserContext) -> None:
    write(user, "cron/jobs.json", "{}")
    assert keep(user, "cron/jobs.json").taken and keep(user, "cron/jobs.json").taken


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("text", ["", "{", "[]", '{"points": 7}', '{"points": {"x": {}}, "taken": "x"}'])
def test_a_torn_memory_costs_one_more_point_and_nothing_else(user: UserContext, text: str) -> None:
    keep(user, "cron/jobs.json")
    directory = os.path.join(user.places.data_directory, "home-points")
    (name,) = os.listdir(directory)
    with open(os.path.join(directory, name), "w") as file:
        file.write(text)
    assert keep(user, "cron/jobs.json").taken
    assert not keep(user, "cron/jobs.json").taken


def test_a_vault_that_somebody_has_to_himself_is_waited_for_briefly_and_named(
    user: UserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_points, "WAIT", 0.1)
    keep(user, "cron/jobs.json")
    with open_vault(user) as repository, repository.lock(exclusive=True):
        with pytest.raises(VaultLocked) as raised:
            keep(user, "skills/keeper")
    assert raised.value.advice()
    newest = next(iter(user.journal.backwards("snapshot")))
    assert newest.state == "failed" and newest.facts["kind"] == "pre-change"
    # A point that was not taken says nothing of how the home is protected.
    assert not recent(user).failures


def test_a_server_that_does_not_answer_is_not_asked_before_every_change(
    user: UserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refuse(*given: object, **more: object) -> None:
        asked.append(1)
        raise PlaceUnreachable("no answer", kept="Nothing was changed", next_steps=())

    monkeypatch.setattr(home_points, "open_vault", refuse)
    away = user.changed(vault="sftp://example.invalid/vault")
    with pytest.raises(PlaceUnreachable):
        keep(away, "cron/jobs.json")
    with pytest.raises(VaultUnreachable) as raised:
        keep(away, "skills/keeper")
    assert raised.value.what == (
        "The vault could not be reached a moment ago, and is not tried before every change: no answer"
    )
    assert raised.value.advice() == ("See whether it answers: `safekept snapshot list`",)
    assert len(asked) == 1
    monkeypatch.setattr(home_point_memory, "_RESTED", 0.0)
    with pytest.raises(PlaceUnreachable):
        keep(away, "skills/keeper")
    # A vault on this machine is always tried: it costs nothing.
    with pytest.raises(PlaceUnreachable):
        keep(user, "cron/jobs.json")


def test_a_busy_agent_pushes_out_no_snapshot_of_a_persons(user: UserContext) -> None:
    day = 86400 * 10**9
    start = 1_780_000_000 * 10**9

    def made(number: int, kind: str, at: int, *more: str) -> Snapshot:
        tree = bytes([number % 256]) * 32
        return Snapshot(
            at, tree, ("/h",), tags=(f"kind:{kind}", *more), offset=0, id=f"{kind}-{more}-{number:05}"
        )

    manual = [made(n, "manual", start + n * day) for n in range(3)]
    quick = [made(n, "quick", start + n * day) for n in range(20)]
    automatic = [made(n, "quick", start + (30 + n) * day, "automatic") for n in range(60)]
    update = [made(0, "pre-update", start)]
    points = [made(n, "pre-change", start + 40 * day + n * day // 100) for n in range(3000)]
    plan = plan_forget(
        [*manual, *quick, *automatic, *update, *points], DEFAULT_POLICIES, now_ns=start + 200 * day
    )
    gone = {one.snapshot.id for one in plan.forget}
    assert not gone & {one.id for one in (*manual, *quick, *update)}
    kept = [one for one in points if one.id not in gone]
    assert kept[-50:] == points[-50:] and 50 < len(kept) <= 64
    assert [one for one in automatic if one.id not in gone] == automatic[-20:]
    # Being the newest of all is no merit of a point: the newest real one keeps that place.
    reasons = {one.snapshot.id: one.reasons for one in plan.keep}
    assert "the newest of its home" in reasons[automatic[-1].id]
    assert "the newest of its home" not in reasons[points[-1].id]


def test_points_are_thinned_even_where_no_regular_snapshot_is_ever_taken(
    user: UserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safekept.vault.care import retention
    from safekept.vault.care.policy import Policy

    monkeypatch.setattr(home_points, "_THIN_EVERY", 4)
    monkeypatch.setattr(retention, "DEFAULT_POLICIES", {"pre-change": Policy(last=3)})
    for number in range(8):
        write(user, "cron/jobs.json", f"{number}")
        keep(user, "cron/jobs.json")
    assert 3 <= len(listed_points(user)) <= 6


# ── the rest of safekept ───────────────────────────────────────────────────────────────────────────


def test_points_are_neither_the_latest_snapshot_nor_a_reason_for_alarm(user: UserContext) -> None:
    place = HomeRef(home_of(user), user.layout("hermes"))
    full = create_snapshot(user, SnapshotRequest(place))
    shutil.rmtree(os.path.join(home_of(user), "skills"))  # a loss, if somebody counted
    point = keep(user, "cron/jobs.json", reason="before cronjob")
    assert not list(user.journal.backwards("alarm"))
    with open_vault(user) as repository:
        listing = list_home(repository, place.home)
    assert latest(listing).id == full.id
    assert [(one.id, one.kind, one.label, one.number) for one in listing.points] == [
        (point.id, "pre-change", "before cronjob", 0)
    ]
    assert [one.number for one in listing.shown] == [1] and choose(listing, point.short).id == point.id
    assert recent(user).snapshots[place.home].facts["snapshot"] == full.id
    counted = create_snapshot(user, SnapshotRequest(place))
    assert counted.alarm is not None  # the point before did not become what it is compared with


def test_a_point_whose_own_field_was_lost_is_read_from_its_manifest(user: UserContext) -> None:
    """`restic rewrite` and `restic tag` keep tags and trees, and drop fields that they do not know."""
    point = keep(user, "cron/jobs.json", "skills/fresh", reason="before cronjob", session="s")
    with open_vault(user) as repository:
        (snapshot,) = list_snapshots(repository)[0]
        bare = dataclasses.replace(snapshot, extra={}, original=snapshot.id)
        with repository.lock(exclusive=True):
            repository.save_snapshot(bare)
            repository.delete_snapshot(snapshot.id)
    (found,) = listed_points(user)
    assert (found.id, found.paths, found.absent) == (point.id, point.paths, point.absent)
    assert (found.session, found.reason) == ("s", "before cronjob")
    write(user, "cron/jobs.json", "{}")
    assert back(user, found).replace == ("cron/jobs.json",)


def test_a_new_container_still_has_its_points_and_another_machines_are_not_mixed_in(
    user: UserContext,
) -> None:
    point = keep(user, "cron/jobs.json")
    with open_vault(user) as repository:
        (snapshot,) = list_snapshots(repository)[0]
        with repository.lock(exclusive=True):
            repository.save_snapshot(dataclasses.replace(snapshot, hostname="before", original=snapshot.id))
            repository.delete_snapshot(snapshot.id)
    assert [one.id for one in listed_points(user)] == [point.id]
    own = keep(user, "skills/keeper")
    assert [one.id for one in listed_points(user)] == [own.id]


def test_a_list_is_shown_also_where_the_vault_does_not_open(user: UserContext) -> None:
    keep(user, "cron/jobs.json")
    with open(user.places.vault_key_file, "w") as file:
        file.write("wrong\n")

    def ask() -> None:
        raise AssertionError("a list asked for a passphrase")

    assert listed_points(user.changed(vault_secret=ask)) == []  # type: ignore[arg-type]


# ── numbers and names ──────────────────────────────────────────────────────────────────────────────


def test_in_a_home_number_one_undoes_the_last_change(user: UserContext) -> None:
    home = home_of(user)
    contents = ["one", "two", "three"]
    points = []
    for text in contents:
        points.append(keep(user, "memories/USER.md", reason=f"before {text}"))
        write(user, "memories/USER.md", text)
    keep(user, "cron/jobs.json", reason="nothing came of it")
    assert [(row.number, row.point.id) for row in home_timeline(user, home).rows] == [
        (1, points[2].id),
        (2, points[1].id),
        (3, points[0].id),
    ]
    assert named_point(user, home, "1") == points[2].id
    with pytest.raises(NoSuchSnapshot) as raised:
        named_point(user, home, "7")
    assert raised.value.what == "There is no home point 7: they are numbered from 1 to 3"
    first = keep(user, "memories/USER.md").id  # it knows "three" and is nothing to go back to
    assert named_point(user, home, "1") == points[2].id != first
    numbers = [one.id for one in reversed(points)]
    for number, expected in enumerate(("two", "one"), 1):
        for _ in range(2):
            back(user, home_timeline(user, home).rows[number - 1].point)
            assert read(user, "memories/USER.md") == expected
            assert [row.point.id for row in home_timeline(user, home).rows] == numbers, "no number moved"
    take_back(user, UndoRequest())
    assert [row.point.id for row in home_timeline(user, home).rows] == numbers
    assert named_point(user, user.places.user_home, points[0].id[:6]) == points[0].id
    for word in ("1", "zzzz"):  # outside a home a number is a checkpoint's
        with pytest.raises(NoCheckpointsHere):
            named_point(user, user.places.user_home, word)


def test_the_last_rollback_is_known_and_taken_back_once(user: UserContext) -> None:
    home = home_of(user)
    point = keep(user, "cron/jobs.json")
    write(user, "cron/jobs.json", "mine")
    assert last_home_rollback(user, home) == ""
    outcome = back(user, point)
    assert last_home_rollback(user, home) == outcome.operation
    assert last_home_rollback(user, os.path.join(home, "skills")) == outcome.operation
    assert last_home_rollback(user, user.places.user_home) == ""  # it was not asked for there
    take_back(user, UndoRequest(operation=outcome.operation))
    assert read(user, "cron/jobs.json") == "mine" and last_home_rollback(user, home) == ""


def test_a_home_is_known_from_inside_and_no_user_is_a_home(user: UserContext) -> None:
    assert home_around(user, os.path.join(home_of(user), "skills/keeper")) == home_of(user)
    assert home_around(user, user.places.user_home) == ""


# ── at the end of a session ────────────────────────────────────────────────────────────────────────


def test_a_session_ends_with_a_quick_snapshot_when_one_is_due(user: UserContext) -> None:
    home = home_of(user)
    keep(user, "cron/jobs.json")  # holds no database: it counts for nothing here
    assert snapshot_if_due(user, home, "hermes", hours=0) is None
    first = snapshot_if_due(user, home, "hermes", hours=4, reason="the session ended")
    assert first is not None and (first.kind, first.label) == ("quick", "the session ended")
    assert "state.db" in first.databases and "automatic" in first.snapshot.tags
    assert snapshot_if_due(user, home, "hermes", hours=4) is None
    assert snapshot_if_due(user, home, "hermes", hours=1e-9) is not None


def test_a_full_snapshot_counts_and_so_does_one_that_only_the_vault_knows(user: UserContext) -> None:
    home = home_of(user)
    create_snapshot(user, SnapshotRequest(HomeRef(home, user.layout("hermes"))))
    assert snapshot_if_due(user, home, "hermes", hours=4) is None
    os.unlink(user.journal.path)
    assert snapshot_if_due(user, home, "hermes", hours=4) is None
    old = create_snapshot(
        user,
        SnapshotRequest(HomeRef(home, user.layout("hermes")), now_ns=time.time_ns() - 5 * 3600 * 10**9),
    )
    with open_vault(user) as repository:
        for one in list_snapshots(repository)[0]:
            if one.id != old.id:
                repository.delete_snapshot(one.id)
    os.unlink(user.journal.path)
    assert snapshot_if_due(user, home, "hermes", hours=4) is not None


# ── storms ─────────────────────────────────────────────────────────────────────────────────────────


def storm(user: UserContext, seed: int, steps: int) -> None:
    """Random changes of a home, a point before each; going back restores the named paths and no others."""
    rng, home = random.Random(seed), home_of(user)
    places = ["skills/keeper", "skills/a/b", "cron/jobs.json", "memories/USER.md", "hooks", "plugins/new"]
    taken: list[tuple[HomePoint, dict[str, tuple[object, ...]]]] = []
    for _ in range(steps):
        chosen = tuple(rng.sample(places, rng.randint(1, 3)))
        taken.append((keep(user, *chosen, reason="storm"), tree_facts(home)))
        for path in chosen:
            full = os.path.join(home, path)
            what = rng.choice(("write", "remove", "touch", "mode", "file", "link"))
            if what == "remove" or (what in ("file", "link") and os.path.isdir(full)):
                shutil.rmtree(full, ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(full)
            if what == "write" and not os.path.isfile(full) and not os.path.islink(full):
                write(user, f"{path}/{rng.choice('abc')}/{rng.choice('xyz')}.md", str(rng.random()))
            elif what in ("write", "file") and not os.path.isdir(full):
                with contextlib.suppress(OSError):
                    os.unlink(full)
                write(user, path, str(rng.random()))
            elif what == "link" and not os.path.lexists(full):
                os.makedirs(os.path.dirname(full), exist_ok=True)
                os.symlink("nowhere", full)
            elif what == "mode" and os.path.lexists(full) and not os.path.islink(full):
                os.chmod(full, rng.choice((0o700, 0o750, 0o755)) if os.path.isdir(full) else 0o640)
            elif what == "touch" and os.path.lexists(full) and not os.path.islink(full):
                os.utime(full)
        point, then = rng.choice(taken)
        now = tree_facts(home)
        outcome = back(user, point)
        assert not outcome.left
        after = tree_facts(home)
        for path in then.keys() | now.keys() | after.keys():
            if any(path == one or path.startswith(one + "/") for one in point.paths):
                assert after.get(path) == then.get(path), (seed, path)
            elif not any(one.startswith(path + "/") or path == "." for one in point.paths):
                assert after.get(path) == now.get(path), (seed, path)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_going_back_restores_the_named_paths_and_no_others(user: UserContext, seed: int) -> None:
    storm(user, seed, 8)


@pytest.mark.soak("hooks")
@pytest.mark.parametrize("seed", range(100, 130))
def test_going_back_restores_the_named_paths_and_no_others_in_a_storm(user: UserContext, seed: int) -> None:
    storm(user, seed, 40)
