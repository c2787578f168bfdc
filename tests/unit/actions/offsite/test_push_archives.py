"""Archives off this host: only sealed ones, whole or not at all, and only our own oldest ones go."""

from __future__ import annotations

import hashlib
import os

import pytest

from safekept.actions.offsite import place as place_module
from safekept.actions.offsite import pull as pull_module
from safekept.actions.offsite.archive_fitness import ArchiveUnsealed, NotAnArchiveFile, is_sealed
from safekept.actions.offsite.archives_there import (
    ArchiveAltered,
    ArchiveTaken,
    NoSuchArchive,
    host_directory,
    list_archives,
)
from safekept.actions.offsite.destinations import last_push
from safekept.actions.offsite.pull import PullRequest, pull
from safekept.actions.offsite.push.push import push
from safekept.actions.offsite.push.result import PushRequest
from safekept.core.errors import SafekeptError
from safekept.core.journal import Record, new_id
from safekept.core.objects.memory import MemoryObjects
from support.offsite.faulty_objects import FAULTS, AddingOnly, FaultyObjects
from support.offsite.pushes import with_disk
from support.users.contexts import throwaway

AGE = b"age-encryption.org/v1\n-> X25519 abc\n"
HOST = host_directory()


@pytest.fixture
def here(tmp_path):
    return with_disk(throwaway(tmp_path), tmp_path / "disk", takes=("archives",), keep=3)


@pytest.fixture
def objects(monkeypatch):
    made = MemoryObjects()
    use(monkeypatch, made)
    return made


def use(monkeypatch, objects):
    for module in (place_module, pull_module):
        monkeypatch.setattr(module, "open_destination", lambda *_: objects)


def archive(directory, day, content=b"", *, prefix="hermes-backup", suffix=".zip.age"):
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"{prefix}-2026-11-{day:02}-033000{suffix}")
    with open(path, "wb") as file:
        file.write(AGE + (content or bytes([day]) * 3000))
    return path


def names(objects):
    return [one.name for one in list_archives(objects)]


def made_of(here, path, home):
    """As a backup notes it."""
    facts = {"archive": path, "home": home}
    here.journal.append(Record(new_id(), "backup", "done", facts=facts))


def test_an_archive_goes_to_the_directory_of_its_host_with_its_checksum_last(here, objects, tmp_path):
    written = []
    plain = objects.write
    objects.write = lambda name, content, **how: (written.append(name), plain(name, content, **how))[1]
    path = archive(tmp_path / "a", 1)
    result = push(here, PushRequest("disk", archives=(path,)))
    place = f"archives/{HOST}/{os.path.basename(path)}"
    assert written[-2:] == [place, f"{place}.sha256"]
    with open(path, "rb") as file:
        data = file.read()
    assert objects.objects[place] == data
    assert objects.objects[f"{place}.sha256"] == (
        f"{hashlib.sha256(data).hexdigest()}  {os.path.basename(path)}\n".encode()
    )
    assert result.archives.sent == [path]
    assert last_push(here, "disk").archive == os.path.basename(path)
    assert push(here, PushRequest("disk", archives=(path,))).archives.already == [path]


@pytest.mark.parametrize("suffix", [".zip", ".tar.zst"])
def test_what_the_place_could_read_is_refused_unless_somebody_said_so(here, objects, tmp_path, suffix):
    path = tmp_path / f"hermes-backup-2026-11-01-033000{suffix}"
    path.write_bytes((b"PK\x03\x04" if suffix == ".zip" else b"\x28\xb5\x2f\xfd") + b"secrets")
    with pytest.raises(ArchiveUnsealed) as raised:
        push(here, PushRequest("disk", archives=(str(path),)))
    assert "could read everything" in raised.value.what
    assert raised.value.kept == "Nothing was sent"
    assert any("`--unsealed`" in step for step in raised.value.advice())
    assert names(objects) == []
    push(here, PushRequest("disk", archives=(str(path),), unsealed=True))
    assert names(objects) == [path.name]
    lenient = with_disk(here, tmp_path / "disk", takes=("archives",), unsealed=True)
    assert push(lenient, PushRequest("disk", archives=(str(path),))).archives.already


def test_a_name_is_no_seal(here, objects, tmp_path):
    path = tmp_path / "hermes-backup-2026-11-01-033000.zip.age"
    path.write_bytes(b"PK\x03\x04 in the clear")
    assert not is_sealed(str(path))
    with pytest.raises(ArchiveUnsealed):
        push(here, PushRequest("disk", archives=(str(path),)))
    assert names(objects) == []


@pytest.mark.parametrize(
    "start", [b"\x85\x02\x0c\x03", b"\xc1\xc0\x4c", b"\x8c\x0d\x04\x09", b"\xc3\x0d\x04"]
)
def test_openpgp_messages_are_sealed(tmp_path, start):
    path = tmp_path / "a.zip.gpg"
    path.write_bytes(start + b"x" * 100)
    assert is_sealed(str(path))


def test_other_files_are_not_sent(here, objects, tmp_path):
    path = tmp_path / "vault.key"
    path.write_text("AAAA-BBBB")
    for wrong in (str(path), str(tmp_path / "missing.zip.age"), str(tmp_path)):
        with pytest.raises(NotAnArchiveFile):
            push(here, PushRequest("disk", archives=(wrong,), unsealed=True))
    assert list(objects.objects) == ["safekept-destination"] or objects.objects == {}


def test_the_last_few_of_each_home_stay_and_nobody_elses_is_touched(here, objects, tmp_path):
    foreign = f"archives/{HOST}/hermes-backup-2020-01-01-000000.zip.age"
    for name in (foreign, "archives/other-host/hermes-backup-2020-01-01-000000.zip.age"):
        objects.write(name, AGE)
        objects.write(f"{name}.sha256", b"0" * 64 + b"  x\n")
    for day in range(1, 8):
        for home in ("anna", "bert"):
            path = archive(tmp_path / home, day, prefix=f"hermes-{home}")
            made_of(here, path, f"/home/{home}/.hermes")
            push(here, PushRequest("disk", archives=(path,)))
    found = names(objects)
    for home in ("anna", "bert"):
        assert [name for name in found if home in name] == [
            f"hermes-{home}-2026-11-{day:02}-033000.zip.age" for day in (5, 6, 7)
        ]
    assert found.count("hermes-backup-2020-01-01-000000.zip.age") == 2
    assert len(objects.objects) == 2 * len(found) + 1, "a checksum goes with its archive"


def test_a_clock_that_went_back_does_not_cost_the_archive_that_was_just_sent(here, objects, tmp_path):
    for day in (10, 11, 12, 13):
        push(here, PushRequest("disk", archives=(archive(tmp_path / "a", day),)))
    old = archive(tmp_path / "a", 1)
    result = push(here, PushRequest("disk", archives=(old,)))
    assert os.path.basename(old) in names(objects)
    assert result.archives.removed == ["hermes-backup-2026-11-11-033000.zip.age"]


def test_nights_that_were_missed_are_caught_up_with_oldest_first(here, objects, tmp_path):
    directory = tmp_path / "a"
    for day in range(1, 7):
        archive(directory, day)
    (directory / "plain-2026-11-07-033000.zip").write_bytes(b"PK\x03\x04 readable")
    (directory / "notes.txt").write_text("not an archive")
    result = push(here, PushRequest("disk", archive_directory=str(directory)))
    assert [os.path.basename(path) for path in result.archives.sent] == [
        f"hermes-backup-2026-11-{day:02}-033000.zip.age" for day in (4, 5, 6)
    ]
    assert any("1 archives in" in note and "not sealed" in note for note in result.notes)
    assert push(here, PushRequest("disk", archive_directory=str(directory))).archives.sent == []
    assert names(objects) == [f"hermes-backup-2026-11-{day:02}-033000.zip.age" for day in (4, 5, 6)]


def test_the_same_name_with_other_content_is_not_replaced(here, objects, tmp_path):
    push(here, PushRequest("disk", archives=(archive(tmp_path / "a", 1),)))
    before = dict(objects.objects)
    other = archive(tmp_path / "b", 1, b"another")
    with pytest.raises(ArchiveTaken):
        push(here, PushRequest("disk", archives=(other,)))
    assert objects.objects == before


def test_a_push_that_was_cut_before_the_checksum_is_finished_without_overwriting(here, monkeypatch, tmp_path):
    objects = AddingOnly()
    use(monkeypatch, objects)
    path = archive(tmp_path / "a", 1)
    push(here, PushRequest("disk", archives=(path,)))
    place = f"archives/{HOST}/{os.path.basename(path)}"
    del objects.objects[f"{place}.sha256"]
    assert [one.checked for one in list_archives(objects)] == [False]
    push(here, PushRequest("disk", archives=(path,)))
    assert [one.checked for one in list_archives(objects)] == [True]
    assert objects.refusals == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_every_call_leaves_whole_archives_or_none(here, monkeypatch, tmp_path, fault):
    path = archive(tmp_path / "a", 1)
    at = 1
    while True:
        objects = MemoryObjects({"safekept-destination": b"x"})
        faulty = FaultyObjects(objects, at, fault)
        use(monkeypatch, faulty)
        try:
            push(here, PushRequest("disk", archives=(path,)))
        except SafekeptError as error:
            assert error.advice()
        for one in list_archives(objects):
            assert one.size == os.path.getsize(path)
        use(monkeypatch, objects)
        push(here, PushRequest("disk", archives=(path,)))
        assert [one.checked for one in list_archives(objects)] == [True]
        if faulty.calls < at:
            break
        at += 1
    assert at > 4


# Back again


def test_the_latest_or_a_named_one_comes_back_the_same(here, objects, tmp_path):
    paths = [archive(tmp_path / "a", day) for day in (1, 3, 2)]
    for path in paths:
        push(here, PushRequest("disk", archives=(path,)))
    latest = pull(here, PullRequest("disk", archive="latest", into=str(tmp_path / "back")))
    assert os.path.basename(latest.path) == os.path.basename(paths[1])
    named = pull(here, PullRequest("disk", archive=os.path.basename(paths[2]), into=str(tmp_path / "back")))
    for result, path in ((latest, paths[1]), (named, paths[2])):
        with open(result.path, "rb") as got, open(path, "rb") as sent:
            assert got.read() == sent.read()
        assert os.stat(result.path).st_mode & 0o777 == 0o600
    again = pull(here, PullRequest("disk", archive="latest", into=str(tmp_path / "back")))
    assert again.path != latest.path, "what is here is never replaced"


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data[:-1] + b"!", lambda data: b""])
def test_an_archive_that_was_changed_there_is_not_kept(here, objects, tmp_path, change):
    path = archive(tmp_path / "a", 1)
    push(here, PushRequest("disk", archives=(path,)))
    place = f"archives/{HOST}/{os.path.basename(path)}"
    objects.objects[place] = change(objects.objects[place])
    with pytest.raises(ArchiveAltered) as raised:
        pull(here, PullRequest("disk", archive="latest", into=str(tmp_path / "back")))
    assert "is not what was sent there" in raised.value.what
    assert os.listdir(tmp_path / "back") == []


def test_what_is_not_there_is_said_with_what_is(here, objects, tmp_path):
    with pytest.raises(NoSuchArchive):
        pull(here, PullRequest("disk", archive="latest"))
    path = archive(tmp_path / "a", 1)
    push(here, PushRequest("disk", archives=(path,)))
    with pytest.raises(NoSuchArchive) as raised:
        pull(here, PullRequest("disk", archive="nope.zip"))
    assert os.path.basename(path) in raised.value.advice()[0]
    objects.write("archives/other/x-2026-11-09-000000.zip.age", AGE)
    objects.write("archives/other/x-2026-11-09-000000.zip.age.sha256", b"")
    with pytest.raises(NoSuchArchive) as raised:
        pull(here, PullRequest("disk", archive="latest"))
    assert "several hosts" in raised.value.what
    assert pull(here, PullRequest("disk", archive="latest", host=HOST, dry_run=True)).archive.host == HOST
