"""Before an update or a migration: three outcomes that cannot be taken for each other, and no exception."""

from __future__ import annotations

import os
import shutil
import zipfile

import pytest

from safekept.actions.guard import pre_update
from safekept.actions.guard.pre_update import DONE, FAILED, OPTED_OUT, protect_before, rotate
from safekept.core.files import NoRoom
from safekept.vault.errors import VaultUnreachable
from safekept.vault.tags import kind_of
from support.home.homes import make_hermes_home


@pytest.fixture
def place(here):
    return here.locate(make_hermes_home(os.path.join(here.places.user_home, ".hermes")))


def configure(place, text: str) -> None:
    with open(os.path.join(place.home, "config.yaml"), "a") as file:
        file.write(text)


def zips(place) -> list[str]:
    return sorted(os.listdir(os.path.join(place.home, "backups")))


def states(here) -> list[tuple[str, str]]:
    return [(entry.verb, entry.state) for entry in here.journal.read() if entry.verb.startswith("pre-")]


def test_by_default_a_whole_snapshot_is_taken_and_no_zip(here, place):
    before = zips(place)
    found = protect_before(here, place)
    assert (found.outcome, found.mode, found.complete) == (DONE, "quick", True)
    assert kind_of(found.snapshot.snapshot) == "pre-update"
    assert found.snapshot.files > 50, "the whole home, every profile with it"
    assert all(facts["state"] == "sound" for facts in found.snapshot.databases.values())
    assert zips(place) == before
    assert states(here) == [("pre-update", "done")]


@pytest.mark.parametrize("kind", ["pre-update", "pre-migration"])
def test_with_backup_the_zip_lies_where_hermes_looks_for_it(here, place, kind):
    found = protect_before(here, place, kind, True)
    assert found.complete and found.zip
    name = os.path.basename(found.zip.written.path)
    assert os.path.dirname(found.zip.written.path) == os.path.join(place.home, "backups")
    assert name.startswith(f"{kind}-20") and len(name) == len(f"{kind}-2026-11-15-093000.zip")
    assert os.stat(found.zip.written.path).st_mode & 0o777 == 0o600
    with zipfile.ZipFile(found.zip.written.path) as archive:
        names = archive.namelist()
    assert "state.db" in names and "profiles/coder/SOUL.md" in names
    assert not [name for name in names if name.startswith("backups/")]


def test_no_backup_wins_over_everything(here, place):
    configure(place, "updates: {pre_update_backup: full}\n")
    found = protect_before(here, place, backup=False, mode="full")
    assert (found.outcome, found.mode) == (OPTED_OUT, "off")
    assert not os.path.exists(here.places.vault)
    assert states(here) == [("pre-update", "opted-out")]


def test_the_home_says_and_a_setting_of_safekept_says_it_first(here, place):
    configure(place, "updates: {pre_update_backup: off}\n")
    assert protect_before(here, place).outcome == OPTED_OUT
    assert protect_before(here, place, mode="quick").outcome == DONE
    assert protect_before(here, place, backup=True).zip is not None


def test_a_migration_is_not_switched_off_by_the_setting_for_updates(here, place):
    configure(place, "updates: {pre_update_backup: off}\n")
    assert protect_before(here, place, "pre-migration").outcome == DONE


def test_a_vault_that_cannot_be_opened_is_a_failure_and_no_exception(here, place):
    protect_before(here, place)
    os.unlink(here.places.vault_key_file)
    found = protect_before(here, place)
    assert (found.outcome, found.complete) == (FAILED, False)
    assert found.problems[0]["code"] == "vault-key-missing"
    assert states(here)[-1] == ("pre-update", "failed")


def test_nothing_that_goes_wrong_gets_out(here, place, monkeypatch):
    def broken(*_):
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(pre_update, "create_snapshot", broken)
    found = protect_before(here, place)
    assert found.outcome == FAILED
    assert found.problems[0]["what"] == "RuntimeError: nobody foresaw this"
    monkeypatch.setattr(pre_update, "read_updates", broken)
    assert protect_before(here, place).outcome == FAILED


def test_a_home_that_is_gone_is_a_failure(here, place):
    shutil.rmtree(place.home)
    assert protect_before(here, place).outcome == FAILED
    assert protect_before(here, place, backup=True).outcome == FAILED
    assert not os.path.exists(place.home), "and it is not made anew"


def test_a_zip_stands_in_when_the_vault_fails(here, place, monkeypatch):
    def unreachable(*_):
        raise VaultUnreachable("gone", kept="nothing", next_steps=())

    monkeypatch.setattr(pre_update, "create_snapshot", unreachable)
    found = protect_before(here, place, backup=True)
    assert found.outcome == DONE and not found.complete, "there is something to go back to, and a problem"
    assert found.zip is not None and found.problems
    assert states(here) == [("pre-update", "incomplete")]


def test_without_room_for_the_home_its_state_files_are_taken(here, place, monkeypatch):
    real, tried = pre_update.create_snapshot, []

    def cramped(context, request, listener):
        tried.append(request.selection.quick)
        if not request.selection.quick:
            raise NoRoom("full", kept="nothing", next_steps=())
        return real(context, request, listener)

    monkeypatch.setattr(pre_update, "create_snapshot", cramped)
    events = []
    found = protect_before(here, place, listener=events.append)
    assert tried == [False, True]
    assert found.outcome == DONE and found.snapshot.files < 50
    assert any("trying its state files alone" in event.text for event in events)


def write_zips(directory, *names: str) -> None:
    os.makedirs(directory, exist_ok=True)
    for name in names:
        with zipfile.ZipFile(os.path.join(directory, name), "w") as archive:
            archive.writestr("config.yaml", "x")


def test_rotation_takes_only_its_own_kind_oldest_first(tmp_path):
    ours = [f"pre-update-2026-01-0{day}-120000.zip" for day in range(1, 8)]
    others = [
        "pre-migration-2026-01-01-120000.zip",
        "pre-update-mine.zip",
        "pre-update-2025.zip",
        "notes.zip",
        "pre-update-2025-01-01-120000.zip.part",
    ]
    write_zips(tmp_path, *ours, *others)
    gone = rotate(str(tmp_path), "pre-update", 5)
    assert sorted(os.path.basename(path) for path in gone) == ours[:2]
    assert sorted(os.listdir(tmp_path)) == sorted([*ours[2:], *others])


@pytest.mark.parametrize("keep", [1, 0, -3])
def test_the_last_one_always_stays(tmp_path, keep):
    write_zips(tmp_path, "pre-update-2026-01-01-120000.zip", "pre-update-2026-01-02-120000.zip")
    rotate(str(tmp_path), "pre-update", keep)
    assert os.listdir(tmp_path) == ["pre-update-2026-01-02-120000.zip"]


def test_a_second_one_of_the_same_second_is_the_younger(tmp_path):
    write_zips(tmp_path, "pre-update-2026-01-01-120000.zip", "pre-update-2026-01-01-120000-2.zip")
    rotate(str(tmp_path), "pre-update", 1)
    assert os.listdir(tmp_path) == ["pre-update-2026-01-01-120000-2.zip"]


def test_a_link_with_the_name_of_a_zip_is_left_alone(tmp_path):
    write_zips(tmp_path / "z", "pre-update-2026-01-02-120000.zip")
    (tmp_path / "z" / "pre-update-2026-01-01-120000.zip").symlink_to("/etc/hostname")
    assert rotate(str(tmp_path / "z"), "pre-update", 1) == []


def test_an_incomplete_zip_pushes_none_out(here, place, tmp_path):
    assert protect_before(here, place, backup=True, keep=1).complete
    whole = zips(place)
    # A database that is not one any more: stored as it is, and the zip is not complete.
    with open(os.path.join(place.home, "state.db"), "r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4000)
    found = protect_before(here, place, backup=True, keep=1)
    assert found.outcome == DONE and not found.complete and found.rotated == ()
    assert set(whole) <= set(zips(place))
    os.unlink(os.path.join(place.home, "state.db"))
    shutil.rmtree(here.places.cache_directory, ignore_errors=True)
    found = protect_before(here, place, backup=True, keep=1)
    assert found.complete, found.problems
    left = [name for name in zips(place) if name.startswith("pre-update-2") and "2026-06-01" not in name]
    assert left == [os.path.basename(found.zip.written.path)]
