"""The newest checkpoints one at a time: the same as the list of all, and no more of it read than needed."""

from __future__ import annotations

import itertools
import os

import pytest

from safekept.checkpoints.checkpoint import NoSuchCheckpoint
from safekept.checkpoints.store.refs import pack_refs
from safekept.checkpoints.store.store import Store
from safekept.checkpoints.take.taking import take
from support.projects.checkpoints import put


def points(store: Store, project: str, numbers: range) -> None:
    for number in numbers:
        put(os.path.join(project, "f.py"), f"turn {number}\n")
        assert take(store, project, reason=f"turn {number}").checkpoint is not None


def ledger(store: Store, project: str) -> str:
    return os.path.join(store.project_directory(project), "ledger")


def spoiled(store: Store, project: str, how: str) -> None:
    """What may happen to the notes beside the repository."""
    path = ledger(store, project)
    with open(path, "rb") as file:
        lines = [line for line in file.read().split(b"\n") if line]
    if how == "gone":
        os.unlink(path)
        return
    kept = {"torn": [*lines[:-1], lines[-1][:40]], "turned": lines[::-1], "half": lines[:2]}[how]
    with open(path, "wb") as file:
        file.write(b"\n".join(kept))


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
@pytest.mark.parametrize("how", ["", "gone", "torn", "turned", "half"])
def test_it_is_the_list_of_all(store, tmp_path, packed, how):
    project, other = str(tmp_path / "one"), str(tmp_path / "other")
    points(store, other, range(2))
    points(store, project, range(4))
    if packed:
        assert pack_refs(store.refs, at_least=1) == 6
        points(store, project, range(4, 6))  # and some that are not packed yet
    if how:
        spoiled(store, project, how)
    found = list(store.newest_first(project))
    assert [one.reason for one in found] == [f"turn {one}" for one in range(6 if packed else 4)][::-1]
    assert found == store.checkpoints(project)
    assert [store.find(project, one.id) for one in found] == found
    assert list(store.newest_first(str(tmp_path / "none"))) == []
    with pytest.raises(NoSuchCheckpoint):
        store.find(other, found[0].id)


def test_a_damaged_one_is_passed_over(store, tmp_path):
    project = str(tmp_path / "one")
    points(store, project, range(3))
    newest, middle, oldest = store.newest_first(project)
    os.unlink(ledger(store, project))
    store.open_refs(os.path.basename(store.project_directory(project)))
    path = os.path.join(
        store.repository, "refs", "safekept", os.path.basename(store.project_directory(project))
    )
    with open(os.path.join(path, middle.id), "w", encoding="ascii") as file:
        file.write("0" * 40)
    assert list(store.newest_first(project)) == [newest, oldest]


def test_the_first_of_very_many_reads_the_end_of_the_notes_alone(store, tmp_path, monkeypatch):
    project = str(tmp_path / "one")
    points(store, project, range(60))
    read = []
    whole = store._ledger_backwards

    def counted(identity):
        for one in whole(identity):
            read.append(one)
            yield one

    monkeypatch.setattr(store, "_ledger_backwards", counted)
    assert len(list(itertools.islice(store.newest_first(project), 5))) == 5
    assert len(read) == 5


def test_what_is_noted_out_of_turn_is_found_without_the_packs_of_every_project(store, tmp_path, monkeypatch):
    project = str(tmp_path / "one")
    points(store, project, range(8))
    everything = store.checkpoints(project)
    spoiled(store, project, "turned")
    with Store.open(store.directory) as fresh:
        assert list(itertools.islice(fresh.newest_first(project), 5)) == everything[:5]
        assert not fresh.objects._packs
    monkeypatch.setattr("safekept.checkpoints.store.store._AHEAD", 3)  # then the commits say it
    with Store.open(store.directory) as fresh:
        assert list(fresh.newest_first(project)) == everything
        assert fresh.objects._packs
