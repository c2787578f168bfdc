"""A push takes copies off this host and nothing else: no surprise there, none here, no secret on the way."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading

import pytest

from safekept.actions.offsite import place as place_module
from safekept.actions.offsite.destination import DestinationSetting
from safekept.actions.offsite.destinations import last_push
from safekept.actions.offsite.place import (
    MARKER,
    DestinationAbsent,
    DestinationEmptied,
    DestinationInsideHome,
    DestinationIsVault,
    NoSuchDestination,
)
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.actions.vault.keys import keys as recovery_access
from safekept.actions.vault.keys.key_file import KeyMissing
from safekept.actions.vault.keys.keys import NoRecoveryAccess, add_passphrase
from safekept.actions.vault.keys.kit import make_kit
from safekept.actions.vault.keys.kit_commands import restic_name
from safekept.actions.vault.keys.kit_files import write_kit
from safekept.actions.vault.keys.kit_page import as_text
from safekept.actions.vault.keys.kit_record import NoKitYet, acknowledge_kit
from safekept.actions.vault.opening import make_vault, open_vault
from safekept.actions.vault.place import SeveralVaults
from safekept.core.errors import SafekeptError
from safekept.core.locks import AlreadyRunning
from safekept.core.objects.errors import unreachable
from safekept.core.objects.memory import MemoryObjects
from safekept.core.worker import Worker
from safekept.vault.mirror.mirror import MirrorRefused
from safekept.vault.repo.keys import Secret
from safekept.vault.repo.locks import Lock
from safekept.vault.storage.base import FileKind
from support.offsite.faulty_objects import FAULTS, AddingOnly, FaultyObjects
from support.offsite.pushes import machine, one_more, proven_copy, with_disk
from support.users.contexts import throwaway
from support.vault.vaults import save_files, some_files


@pytest.fixture
def here(tmp_path):
    return with_disk(machine(tmp_path), tmp_path / "disk")


@pytest.fixture
def in_memory(monkeypatch):
    """The destination `disk` becomes what this is given."""

    def use(objects):
        monkeypatch.setattr(place_module, "open_destination", lambda *_: objects)
        return objects

    return use


def vault_id(here):
    with open_vault(here) as repository:
        return repository.id


def files_below(path):
    return sorted(
        os.path.relpath(os.path.join(directory, name), path)
        for directory, _, names in os.walk(path)
        for name in names
    )


def test_a_push_makes_a_copy_that_opens_with_only_the_key(here, tmp_path):
    result = push(here, PushRequest("disk"))
    assert result.state == "done"
    assert result.mirrored.snapshots == 2
    assert sorted(os.listdir(tmp_path / "disk")) == sorted([MARKER, vault_id(here)[:16]])
    assert proven_copy(here, "disk") == 2
    bare = throwaway(tmp_path / "bare", destinations=here.choices.destinations, source_vault="disk")
    with pytest.raises(KeyMissing):
        open_vault(bare)
    os.makedirs(os.path.dirname(bare.places.vault_key_file))
    shutil.copy(here.places.vault_key_file, bare.places.vault_key_file)
    with open_vault(bare) as copy:
        assert copy.id == vault_id(here)
    assert not os.path.exists(bare.places.vault)


def test_no_lock_is_written_there_and_none_is_left_here(here, tmp_path):
    push(here, PushRequest("disk"))
    proven_copy(here, "disk")
    assert not [name for name in files_below(tmp_path / "disk") if "/locks/" in name]
    assert os.listdir(os.path.join(here.places.vault, "locks")) == []


def test_a_prune_cannot_run_while_a_push_reads(here, in_memory):
    held = []

    class Watching(MemoryObjects):
        def write(self, name, content, *, replace=False):
            if "/data/" in name:
                held.append(os.listdir(os.path.join(here.places.vault, "locks")))
            super().write(name, content, replace=replace)

    in_memory(Watching())
    push(here, PushRequest("disk"))
    assert held
    assert all(held)


def test_a_lost_lock_ends_the_push_before_the_next_stage(here, in_memory, monkeypatch):
    objects = in_memory(MemoryObjects())
    calls = 0
    check = Lock.check

    def lose(self):
        nonlocal calls
        calls += 1
        if calls == 4:
            self._lost = "another process removed it"
        check(self)

    monkeypatch.setattr(Lock, "check", lose)
    with pytest.raises(SafekeptError) as raised:
        push(here, PushRequest("disk"))
    assert raised.value.code == "vault-lock-lost"
    assert not [name for name in objects.objects if "/index/" in name]


# The second way into the vault


def test_the_first_push_insists_on_a_second_way(tmp_path):
    here = with_disk(throwaway(tmp_path), tmp_path / "disk")
    with make_vault(here) as repository:
        save_files(repository, some_files(1))
    with pytest.raises(NoRecoveryAccess) as raised:
        push(here, PushRequest("disk"))
    error = raised.value
    assert here.places.vault_key_file in error.what
    assert "Nothing was sent" in error.kept
    assert any("`safekept vault key add --recovery`" in step for step in error.advice())
    assert any("`safekept vault kit --stored`" in step for step in error.advice())
    assert not os.path.exists(tmp_path / "disk")
    assert last_push(here, "disk").state == "failed"

    with pytest.raises(NoKitYet):
        push(here, PushRequest("disk", acknowledge_kit=True))
    with open_vault(here) as repository:
        write_kit(here, repository, str(tmp_path))
    assert push(here, PushRequest("disk", acknowledge_kit=True)).state == "done"
    assert push(here, PushRequest("disk")).state == "done"


def test_a_passphrase_is_a_second_way_and_a_generated_key_is_none(tmp_path, monkeypatch):
    here = throwaway(tmp_path)
    with make_vault(here) as repository:
        assert recovery_access.recovery_access(here, repository) == ""
        add_passphrase(here, repository, Secret("correct horse battery"), recovery=True)
        assert recovery_access.recovery_access(here, repository) == "passphrase"


def test_a_kit_counts_for_its_own_vault_only(here, tmp_path):
    other = throwaway(tmp_path / "other")
    with make_vault(other) as repository:
        shutil.copy(os.path.join(here.places.data_directory, "kits.json"), other.places.data_directory)
        assert recovery_access.recovery_access(other, repository) == ""
        write_kit(other, repository, str(tmp_path))
        acknowledge_kit(other, repository)
        assert recovery_access.recovery_access(other, repository) == "kit"


@pytest.mark.parametrize(
    ("url", "options", "restic"),
    [
        ("file:/mnt/stick/a", {}, "/mnt/stick/a/ID"),
        ("sftp://me@nas:2222/srv/a", {}, "sftp://me@nas:2222//srv/a/ID"),
        ("sftp://nas/~/a", {}, "sftp://nas/a/ID"),
        ("s3://bucket/a", {"endpoint": "https://s3.example.org/"}, "s3:https://s3.example.org/bucket/a/ID"),
        ("s3://bucket", {}, "s3:https://s3.amazonaws.com/bucket/ID"),
        ("rclone:cloud:a/b", {}, "rclone:cloud:a/b/ID"),
    ],
)
def test_the_kit_names_each_copy_as_restic_does(here, url, options, restic):
    setting = DestinationSetting("far", url, options=options)
    assert restic_name(setting, "ID") == restic
    with open_vault(here) as repository:
        page = as_text(make_kit(here.changed(destinations=(setting,)), repository))
    assert f"{url} (for restic: VAULT=" in page
    assert restic.replace("ID", repository.id[:16]) in page


# Is it the right place?


def test_an_unplugged_disk_is_a_fact_and_nothing_is_made_on_its_mount_point(here, tmp_path):
    push(here, PushRequest("disk"))
    disk, aside = tmp_path / "disk", tmp_path / "aside"
    os.rename(disk, aside)
    os.mkdir(disk)  # the bare mount point
    result = push(here, PushRequest("disk"))
    assert result.state == "absent"
    assert MARKER in result.reason
    assert os.listdir(disk) == []
    assert last_push(here, "disk").state == "absent"
    os.rmdir(disk)
    assert push(here, PushRequest("disk")).state == "absent"
    assert not os.path.exists(disk)
    os.rename(aside, disk)
    one_more(here, 7)
    assert push(here, PushRequest("disk")).mirrored.snapshots == 1


def test_a_new_disk_for_the_same_purpose_is_taken_when_a_person_says_so(here, tmp_path):
    push(here, PushRequest("disk"))
    shutil.rmtree(tmp_path / "disk")
    os.mkdir(tmp_path / "disk")
    assert push(here, PushRequest("disk")).state == "absent"
    assert push(here, PushRequest("disk", anew=True)).mirrored.snapshots == 2
    assert proven_copy(here, "disk") == 2


def test_the_first_use_refuses_the_disk_of_the_system(here, tmp_path, monkeypatch):
    monkeypatch.setattr("safekept.actions.offsite.elsewhere.in_memory", lambda path: False)
    here = with_disk(here, tmp_path / "disk", same_disk=False)
    result = push(here, PushRequest("disk"))
    assert result.state == "absent"
    assert isinstance(result.absence, DestinationAbsent)
    assert "not another disk" in result.reason
    assert any("same_disk = true" in step for step in result.absence.advice())
    assert not os.path.exists(tmp_path / "disk")


def test_a_home_is_no_place_for_its_own_copies(here):
    home = os.path.join(here.places.user_home, ".hermes")
    os.makedirs(home)
    here = with_disk(here, f"{home}/copies")
    with pytest.raises(DestinationInsideHome) as raised:
        push(here, PushRequest("disk"))
    assert home in raised.value.what
    assert os.listdir(home) == []


def test_a_real_other_disk_needs_no_word(here, small_filesystem, monkeypatch):
    monkeypatch.setattr("safekept.actions.offsite.elsewhere.in_memory", lambda path: False)
    place = small_filesystem(4096)
    here = with_disk(here, f"{place}/safekept", same_disk=False)
    assert push(here, PushRequest("disk")).state == "done"
    assert proven_copy(here, "disk") == 2


def test_a_server_that_was_emptied_is_not_filled_anew_unasked(here, in_memory):
    here = here.changed(destinations=(DestinationSetting("nas", "sftp://nas/srv/backups"),))
    objects = in_memory(MemoryObjects())
    push(here, PushRequest("nas"))
    objects.objects.clear()
    with pytest.raises(DestinationEmptied) as raised:
        push(here, PushRequest("nas"))
    assert "was used before" in raised.value.what
    assert objects.objects == {}
    assert push(here, PushRequest("nas", anew=True)).mirrored.snapshots == 2


def test_a_place_that_is_itself_a_vault_is_no_destination(here):
    here = with_disk(here, here.places.vault)
    before = files_below(here.places.vault)
    with pytest.raises(DestinationIsVault):
        push(here, PushRequest("disk"))
    assert files_below(here.places.vault) == before


def test_a_directory_with_the_config_of_another_vault_is_refused(here, tmp_path):
    push(here, PushRequest("disk"))
    place = tmp_path / "disk" / vault_id(here)[:16] / "config"
    os.chmod(place, 0o600)
    place.write_bytes(b"x" * 200)
    with pytest.raises(MirrorRefused) as raised:
        push(here, PushRequest("disk"))
    assert str(place) in raised.value.advice()[1]


def test_a_name_that_does_not_exist_lists_those_that_do(here):
    with pytest.raises(NoSuchDestination) as raised:
        push(here, PushRequest("nas"))
    assert raised.value.advice()[0] == "Use one of: disk"


def test_a_password_in_a_url_is_refused_and_never_repeated(here):
    with pytest.raises(NoSuchDestination) as raised:
        push(here, PushRequest("sftp://me:hunter2@nas/srv"))
    assert "hunter2" not in str(raised.value.as_dict())
    with contextlib.suppress(FileNotFoundError), open(here.journal.path) as journal:
        assert "hunter2" not in journal.read()


def test_two_vaults_in_one_destination_keep_apart_and_are_told_apart(here, tmp_path):
    push(here, PushRequest("disk"))
    other = with_disk(machine(tmp_path / "other"), tmp_path / "disk")
    push(other, PushRequest("disk"))
    assert len([name for name in os.listdir(tmp_path / "disk") if len(name) == 16]) == 2
    assert proven_copy(here, "disk") == 2
    assert proven_copy(other, "disk") == 2
    bare = throwaway(tmp_path / "bare", destinations=here.choices.destinations, source_vault="disk")
    with pytest.raises(SeveralVaults) as raised:
        open_vault(bare)
    assert vault_id(here)[:16] in raised.value.what
    shutil.copytree(os.path.dirname(here.places.vault_key_file), os.path.dirname(bare.places.vault_key_file))
    one = bare.changed(source_vault=f"file:{tmp_path}/disk/{vault_id(here)[:16]}")
    with open_vault(one) as copy:
        assert copy.id == vault_id(here)


# Bad luck


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_some_calls_of_a_whole_push_is_success_or_a_clear_error(here, in_memory, fault):
    at, seen = 1, set()
    while True:
        objects = MemoryObjects()
        faulty = in_memory(FaultyObjects(objects, at, fault))
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(here.places.data_directory, "destinations.json"))
        try:
            seen.add(push(here, PushRequest("disk")).state)
        except SafekeptError as error:
            assert error.kept
            assert error.advice()
            assert last_push(here, "disk").error == error.what
            seen.add(error.code)
        if faulty.calls < at:
            break
        in_memory(objects)
        assert push(here, PushRequest("disk")).state == "done"
        at += 5
    assert "done" in seen
    assert at > 10


def test_one_dead_destination_is_an_error_of_its_own_and_says_what_is_safe(here, in_memory):
    in_memory(FaultyObjects(MemoryObjects(), 1, "down"))
    with pytest.raises(SafekeptError) as raised:
        push(here, PushRequest("disk"))
    assert raised.value.code == "place-unreachable"
    assert raised.value.retry
    last = last_push(here, "disk")
    assert (last.state, last.done) == ("failed", 0.0)


def test_weeks_of_nights_with_a_credential_that_can_only_add(here, in_memory, tmp_path):
    objects = in_memory(AddingOnly())
    archives = tmp_path / "archives"
    archives.mkdir()
    for night in range(1, 19):
        one_more(here, 100 + night)
        (archives / f"hermes-backup-2026-11-{night:02}-033000.zip.age").write_bytes(
            b"age-encryption.org/v1\n" + bytes([night]) * 50
        )
        for old in sorted(os.listdir(archives))[:-14]:
            os.unlink(archives / old)
        result = push(here, PushRequest("disk", archive_directory=str(archives)))
        assert result.state == "done"
        assert len(result.archives.sent) == 1
        if night > 14:
            assert "older archives stay there beyond `keep`" in result.notes[-1]
    # Nothing was overwritten; deleting old archives was tried once a night, and no more.
    assert all("/archives/" in f"/{name}" for name in objects.refusals)
    assert len(objects.refusals) == 4
    assert len([name for name in objects.objects if name.endswith(".age")]) == 18


def test_two_pushes_of_one_machine_to_one_place_are_one_at_a_time(here, in_memory):
    arrived, go_on = threading.Event(), threading.Event()

    class Waiting(MemoryObjects):
        def write(self, name, content, *, replace=False):
            arrived.set()
            assert go_on.wait(300)
            super().write(name, content, replace=replace)

    in_memory(Waiting())
    worker = Worker(lambda: push(here, PushRequest("disk")), "push")
    assert arrived.wait(300)
    with pytest.raises(AlreadyRunning):
        push(here, PushRequest("disk"))
    go_on.set()
    assert worker.wait(300)
    assert worker.error is None


def test_a_dry_run_writes_nothing_anywhere(here, tmp_path):
    before = files_below(tmp_path)
    result = push(here, PushRequest("disk", dry_run=True))
    assert result.plan.as_dict()["snapshots"] == 2
    assert any("would be made" in note for note in result.notes)
    new = {name for name in files_below(tmp_path) if "/.cache/" not in name} - set(before)
    assert new == set()


def test_what_cannot_be_sent_makes_the_push_incomplete_and_is_in_the_journal(here, tmp_path):
    with open_vault(here) as repository:
        name, _ = next(iter(repository.storage.list(FileKind.PACK)))
    path = os.path.join(here.places.vault, "data", name[:2], name)
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.write(b"rot")
    result = push(here, PushRequest("disk"))
    assert result.state == "incomplete"
    assert not os.path.exists(tmp_path / "disk" / vault_id(here)[:16] / "data" / name[:2] / name)
    entry = list(here.journal.read())[-1]
    assert (entry.verb, entry.state) == ("push", "incomplete")
    assert entry.facts["problems"][0]["file"].endswith(name)


def test_the_journal_says_what_a_push_did(here):
    push(here, PushRequest("disk"))
    last = last_push(here, "disk")
    assert (last.state, last.snapshots) == ("done", 2)
    assert last.done == last.time
    assert last.bytes > 0
    entries = [entry for entry in here.journal.read() if entry.verb == "push"]
    assert [entry.state for entry in entries] == ["begun", "done"]
    assert entries[-1].facts["vault"] == vault_id(here)


def far(here):
    """The same with a place that is no disk."""
    setting = DestinationSetting("disk", "s3://bucket/far")
    return here.changed(destinations=(setting,))


def test_every_push_tries_what_its_credential_may_do_and_says_so(here, in_memory):
    here, place = far(here), in_memory(MemoryObjects())
    assert push(here, PushRequest("disk", dry_run=True)).rights is None, "a dry run writes nothing"
    done = push(here, PushRequest("disk"))
    assert done.rights is not None and not done.rights.keeps
    assert done.as_dict()["rights"] == {
        "overwrite": True,
        "delete": True,
        "versioning": False,
        "keeps": False,
    }
    last = last_push(here, "disk")
    assert last is not None and last.rights == done.as_dict()["rights"]
    assert not [name for name in place.objects if "probe" in name]


def test_a_push_has_arrived_whatever_becomes_of_that_try(here, in_memory):
    class Silent(MemoryObjects):
        def probe(self):
            raise unreachable("far", "it stopped answering")

    in_memory(Silent())
    here = far(here)
    done = push(here, PushRequest("disk"))
    assert done.complete and done.rights is None
    last = last_push(here, "disk")
    assert last is not None and last.state == "done" and last.rights is None
