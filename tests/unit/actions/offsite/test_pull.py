"""A pull brings a vault back whole, or what a damaged one has lost, and never touches what is sound."""

from __future__ import annotations

import os
import shutil

import pytest

from safekept.actions.offsite import place as offsite_place
from safekept.actions.offsite.pull import PullRequest, PullTargetTaken, pull
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.vault.opening import VaultInsideHome, open_vault
from safekept.core.errors import SafekeptError
from safekept.core.objects.local import LocalObjects
from safekept.vault.care.checking import check
from safekept.vault.care.forgetting import forget
from safekept.vault.care.prune import carry_out, plan_prune
from safekept.vault.errors import NoSuchVault
from safekept.vault.snapshots import list_snapshots
from safekept.vault.storage.base import FileKind
from support.offsite.faulty_objects import FaultyObjects
from support.offsite.pushes import NOW, machine, proven_copy, with_disk
from support.users.contexts import throwaway
from support.vault.vaults import read_all


@pytest.fixture
def here(tmp_path):
    made = with_disk(machine(tmp_path), tmp_path / "disk")
    push(made, PushRequest("disk"))
    return made


@pytest.fixture
def bare(here, tmp_path):
    """Another machine that has the key from the kit and nothing else."""
    made = throwaway(tmp_path / "bare", destinations=here.choices.destinations)
    os.makedirs(os.path.dirname(made.places.vault_key_file))
    shutil.copy(here.places.vault_key_file, made.places.vault_key_file)
    return made


def everything(here):
    with open_vault(here) as repository:
        assert check(repository, read_data=1.0).sound
        return read_all(repository)


def test_a_bare_machine_gets_its_vault_back_in_its_usual_place(here, bare):
    result = pull(bare, PullRequest("disk"))
    assert result.path == bare.places.vault
    assert result.opens is True
    assert everything(bare) == everything(here)
    assert [entry.state for entry in bare.journal.read() if entry.verb == "pull"] == ["done"]


def test_without_the_key_it_comes_all_the_same_and_that_is_said(bare):
    os.unlink(bare.places.vault_key_file)
    assert pull(bare, PullRequest("disk")).opens is False
    assert os.path.exists(os.path.join(bare.places.vault, "config"))


def test_a_vault_that_is_here_is_never_touched(here, tmp_path):
    before = everything(here)
    with pytest.raises(PullTargetTaken) as raised:
        pull(here, PullRequest("disk"))
    assert raised.value.kept == "It was not touched"
    assert any("`safekept pull disk --mend`" in step for step in raised.value.advice())
    pull(here, PullRequest("disk", into=str(tmp_path / "copy")))
    assert proven_copy(here, str(tmp_path / "copy")) == 2
    assert everything(here) == before


def test_a_directory_with_other_things_is_refused(bare, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(PullTargetTaken) as raised:
        pull(bare, PullRequest("disk", into=str(tmp_path / "full")))
    assert "letter.txt" in raised.value.what
    assert os.listdir(tmp_path / "full") == ["letter.txt"]


def test_a_vault_is_not_fetched_into_a_home(bare):
    home = os.path.join(bare.places.user_home, ".hermes")
    os.makedirs(home)
    with pytest.raises(VaultInsideHome):
        pull(bare, PullRequest("disk", into=os.path.join(home, "vault")))
    assert os.listdir(home) == []


def test_a_pull_that_is_cut_is_no_vault_yet_and_goes_on_where_it_ended(bare, tmp_path, monkeypatch):
    real = LocalObjects(str(tmp_path / "disk"))
    for at in (6, 9, 12, 15):
        faulty = FaultyObjects(real, at, "down")
        monkeypatch.setattr(offsite_place, "open_destination", lambda *_, faulty=faulty: faulty)
        with pytest.raises(SafekeptError) as raised:
            pull(bare, PullRequest("disk"))
        assert raised.value.code == "place-unreachable"
        assert not os.path.exists(os.path.join(bare.places.vault, "config"))
        with pytest.raises(SafekeptError):
            open_vault(bare)
    monkeypatch.undo()
    assert pull(bare, PullRequest("disk")).fetched.present > 0
    assert len(everything(bare)) == 2


def test_parts_of_another_vault_are_not_mixed_in(bare, tmp_path):
    other = with_disk(machine(tmp_path / "other"), tmp_path / "second")
    push(other, PushRequest("disk"))
    pull(bare, PullRequest("disk"))
    os.chmod(os.path.join(bare.places.vault, "config"), 0o600)
    os.unlink(os.path.join(bare.places.vault, "config"))
    with pytest.raises(PullTargetTaken) as raised:
        pull(bare, PullRequest(f"file:{tmp_path}/second"))
    assert "parts of another vault" in raised.value.what


def test_an_empty_place_has_no_vault(bare, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoSuchVault):
        pull(bare, PullRequest(f"file:{tmp_path}/empty"))
    assert not os.path.exists(bare.places.vault)


# Mending


def damage(here, kind, how):
    with open_vault(here) as repository:
        names = sorted(name for name, _ in repository.storage.list(kind))
    name = names[0]
    path = os.path.join(here.places.vault, kind.value, name[:2] if kind is FileKind.PACK else "", name)
    path = os.path.normpath(path)
    os.chmod(path, 0o600)
    if how == "gone":
        os.unlink(path)
    else:
        with open(path, "r+b") as file:
            file.truncate(10) if how == "cut" else file.write(b"rot")
    return name


@pytest.mark.parametrize("how", ["gone", "cut", "rotten"])
def test_lost_packs_come_back_from_the_copy(here, how):
    before = everything(here)
    damage(here, FileKind.PACK, how)
    result = pull(here, PullRequest("disk", mend=True))
    assert (result.fetched.files, result.lost) == (1, [])
    assert everything(here) == before


@pytest.mark.parametrize("kind", [FileKind.INDEX, FileKind.SNAPSHOT])
def test_rotten_index_and_snapshot_files_come_back(here, kind):
    before = everything(here)
    damage(here, kind, "rotten")
    assert pull(here, PullRequest("disk", mend=True)).complete
    assert everything(here) == before


def test_what_was_forgotten_here_does_not_come_back(here):
    with open_vault(here) as repository, repository.lock(exclusive=True) as lock:
        snapshots, _ = list_snapshots(repository)
        forget(repository, snapshots[:1], lock, now_ns=NOW)
        carry_out(repository, plan_prune(repository, now_ns=NOW + 10**15, grace=0), lock)
    push(here, PushRequest("disk"))
    damage(here, FileKind.PACK, "gone")
    pull(here, PullRequest("disk", mend=True))
    assert len(everything(here)) == 1


def test_what_the_copy_lacks_too_is_said(here, tmp_path):
    name = damage(here, FileKind.PACK, "gone")
    for directory, _, names in os.walk(tmp_path / "disk"):
        if name in names:
            os.unlink(os.path.join(directory, name))
    result = pull(here, PullRequest("disk", mend=True))
    assert result.lost == [f"data/{name[:2]}/{name}"]
    assert not result.complete


def test_nothing_is_fetched_where_nothing_is_damaged(here):
    result = pull(here, PullRequest("disk", mend=True))
    assert (result.fetched.files, result.complete) == (0, True)


# Reading a copy where it is


def test_a_copy_is_read_where_it_is_without_a_trace_there_or_here(here, bare, tmp_path):
    def listing(place):
        return sorted(os.path.join(where, name) for where, _, names in os.walk(place) for name in names)

    before = listing(tmp_path / "disk")
    for place in ("disk", f"file:{tmp_path}/disk", str(tmp_path / "disk")):
        with open_vault(bare.changed(source_vault=place)) as copy:
            assert len(read_all(copy)) == 2
    assert listing(tmp_path / "disk") == before
    assert not os.path.exists(bare.places.vault)


def test_a_vault_can_live_behind_a_url(tmp_path):
    here = machine(tmp_path, vault=f"file:{tmp_path}/far/vault")
    with open_vault(here) as repository:
        assert len(read_all(repository)) == 2
        with repository.lock(exclusive=True):
            pass
    assert os.path.exists(tmp_path / "far" / "vault" / "config")
