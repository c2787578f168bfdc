"""One way to name a point: what a word means, and what a rollback costs that needs nothing from the vault."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from safekept.actions.base.context import UserContext
from safekept.actions.projects.checkpoint import CheckpointPolicy, take_checkpoint
from safekept.actions.projects.home_points.point import HomePoint
from safekept.actions.projects.home_points.take import before_home_change
from safekept.actions.projects.points import CHECKPOINT, HOME, Points, Target, names_a_point
from safekept.actions.projects.project import NoCheckpointsHere
from safekept.checkpoints.checkpoint import NoSuchCheckpoint
from safekept.checkpoints.rollback import recovery
from safekept.checkpoints.store import Store
from safekept.core.locks import process_lock
from support.home.homes import make_hermes_home
from support.projects.checkpoints import put
from support.users.contexts import throwaway


@pytest.fixture
def user(tmp_path: object) -> UserContext:
    context = throwaway(os.path.realpath(str(tmp_path)))
    make_hermes_home(os.path.join(context.places.user_home, ".hermes"), profiles=(), awkward=False)
    return context


@pytest.fixture
def project(user: UserContext) -> str:
    """A project that was kept and changed since."""
    place = os.path.join(user.places.user_home, "project")
    put(os.path.join(place, "pyproject.toml"), "")
    put(os.path.join(place, "src", "main.py"), "one\n")
    take_checkpoint(user, place, CheckpointPolicy(), reason="before the change")
    put(os.path.join(place, "src", "main.py"), "two\n")
    return place


@pytest.fixture
def point(user: UserContext) -> HomePoint:
    """A home point, and a change after it."""
    home = os.path.join(user.places.user_home, ".hermes")
    found = before_home_change(user, home, "hermes", ["SOUL.md"], reason="before the change")
    put(os.path.join(home, "SOUL.md"), "somebody else\n")
    return found


@pytest.fixture
def no_vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever opens a vault fails."""

    def asked(*_: object, **__: object) -> None:
        pytest.fail("the vault was opened")

    monkeypatch.setattr("safekept.actions.vault.opening.open_vault", asked)
    yield


def read(*parts: str) -> str:
    with open(os.path.join(*parts)) as file:
        return file.read()


@pytest.mark.parametrize("below", ["", "src", "src/not there yet"])
def test_a_number_is_a_checkpoints_wherever_a_project_is(user, project, point, no_vault, below):
    with Points(user, os.path.join(project, below)) as points:
        assert points.resolve("1") == points.resolve("") == Target(CHECKPOINT, project, "1")
        assert points.diff(points.resolve()).files == ("src/main.py",)
        assert points.plan(points.resolve()).steps == [("src/main.py", "restore")]
        assert points.last_rollback() == Target(CHECKPOINT, project, "")


def test_a_number_is_a_home_points_in_a_home_and_an_id_means_whatever_has_it(user, project, point):
    home = point.home
    with Points(user, os.path.join(home, "skills")) as points:
        assert points.resolve("1") == Target(HOME, home, point.id)
    with Points(user, project) as points:
        listed = points.list(every=True)
        (checkpoint,) = [row.point.id for row in listed.rows if row.number]
        assert points.resolve(checkpoint) == Target(CHECKPOINT, project, checkpoint)
        assert points.resolve(checkpoint[:6].upper()).kind == CHECKPOINT
        assert points.resolve(point.id) == points.resolve(point.short) == Target(HOME, home, point.id)
        assert [row.point.id for row in listed.in_order if row.point.kind == "home"] == [point.id]
        for row in listed.in_order:
            assert points.diff(points.resolve(row.point.id)).point.id == row.point.id
        with pytest.raises(NoSuchCheckpoint) as unknown:
            points.diff(points.resolve("ffffffff"))
    assert (
        unknown.value.what
        == f"`{project}` has no checkpoint `ffffffff`; it never had one, or it was dropped since"
    )


def test_where_there_is_nothing_a_word_means_nothing_and_no_store_is_made(user, project, no_vault):
    other = throwaway(os.path.join(user.places.user_home, "somebody"))
    with Points(other, project) as points, pytest.raises(NoCheckpointsHere) as nothing:
        points.resolve("1")
    assert nothing.value.what == f"There are no checkpoints of `{project}`"
    assert nothing.value.kept == "Nothing was changed"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("1", True),
        ("1k7goa3a8mbs", True),
        ("deadbeef", True),
        ("f" * 64, True),
        ("main.py", False),
        ("", False),
    ],
)
def test_a_word_that_can_mean_no_point_is_the_name_of_a_file(word, expected):
    assert names_a_point(word) is expected


@pytest.mark.parametrize("undo", [False, True])
def test_a_rollback_opens_the_store_once_and_takes_its_lock_once(
    user, project, point, no_vault, monkeypatch, undo
):
    if undo:
        with Points(user, project) as points:
            points.apply(points.resolve("1"))
    opened, locked = [], []
    real_open = Store.open.__func__  # type: ignore[attr-defined]

    def counted_open(cls, *arguments, **options):
        opened.append(arguments)
        return real_open(cls, *arguments, **options)

    def counted_lock(path, *arguments, **options):
        locked.append(os.path.basename(path))
        return process_lock(path, *arguments, **options)

    monkeypatch.setattr(Store, "open", classmethod(counted_open))
    monkeypatch.setattr(recovery, "process_lock", counted_lock)
    with Points(user, project) as points:
        outcome = points.undo() if undo else points.apply(points.resolve("1"))
    assert outcome.changed and outcome.complete and not outcome.planned
    assert read(project, "src/main.py") == ("two\n" if undo else "one\n")
    assert (len(opened), locked) == (1, ["rollback.lock"])


def test_the_lock_of_a_rollback_is_free_again_whatever_happened(user, project, monkeypatch):
    with Points(user, project) as points:
        with pytest.raises(NoSuchCheckpoint):
            points.apply(points.resolve("7"))

        def refused(plan: object) -> None:
            raise ValueError("not what was agreed to")

        with pytest.raises(ValueError, match="agreed"):
            points.apply(points.resolve("1"), agreed=refused)
    assert read(project, "src/main.py") == "two\n"
    place = os.path.join(user.places.data_directory, "checkpoints", "projects")
    (name,) = os.listdir(place)
    with process_lock(os.path.join(place, name, "rollback.lock"), "looking"):
        pass


def test_the_last_rollback_is_taken_back_whatever_it_was_of(user, project, point):
    soul = os.path.join(point.home, "SOUL.md")
    with Points(user, project) as points:
        points.apply(points.resolve("1"))
        points.apply(points.resolve(point.id))
        assert points.last_rollback().kind == HOME
        planned = points.undo(dry_run=True)
        assert planned.planned and planned.undoes and planned.steps == [("SOUL.md", "restore")]
        assert (planned.point.id, planned.point.place) == (point.id, point.home)
        points.undo()
        assert read(soul) == "somebody else\n" and read(project, "src/main.py") == "one\n"
        assert points.last_rollback() == Target(CHECKPOINT, project, "")
        points.undo()
    assert read(project, "src/main.py") == "two\n"
