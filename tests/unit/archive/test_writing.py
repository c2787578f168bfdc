"""What cannot be read is said, what cannot be written leaves nothing, and no name is given too early."""

import errno
import os
from dataclasses import replace

import pytest

from safekept.archive import identify, open_archive, write_archive
from safekept.archive.container.output import Output
from safekept.archive.errors import ArchiveNotProven, OutputNotWritable
from safekept.core.entries import CHUNK, Content, DatabaseFacts, Entry, EntryLost, Kind, Outcome, Remark
from safekept.core.files import NoRoom
from safekept.core.processes.process import process_space
from support.archives.sources import (
    FORMS,
    WHEN,
    UnevenContent,
    directory,
    failing,
    file,
    link,
    read,
    sample_home,
    write,
)
from support.home.entry_list import EntryList

GONE = EntryLost(Remark("b", Outcome.GONE, "vanished before it was read"))


def raise_it(error):
    raise error


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [10, 3 * CHUNK])
def test_entry_that_cannot_be_opened_is_a_remark_and_the_rest_is_stored(form, size, tmp_path):
    lost = EntryLost(Remark("b", Outcome.UNREADABLE, "permission denied"))
    entry = Entry("b", Kind.FILE, 0o644, WHEN, size, open=lambda: raise_it(lost))
    written = write([file("a", b"1"), entry, file("c", b"3")], tmp_path / "x", form)
    assert sorted(read(tmp_path / "x")) == ["a", "c"]
    assert not written.complete
    assert written.remarks == [lost.remark]
    assert identify(str(tmp_path / "x"))["complete"] is False
    assert identify(str(tmp_path / "x"))["remarks"] == [lost.remark.as_dict()]


@pytest.mark.parametrize("form", FORMS)
def test_vanished_file_does_not_make_an_archive_incomplete(form, tmp_path):
    entry = Entry("b", Kind.FILE, 0o644, WHEN, 5, open=lambda: raise_it(GONE))
    written = write([file("a", b"1"), entry], tmp_path / "x", form)
    assert written.complete
    assert written.remarks == [GONE.remark]
    assert list(read(tmp_path / "x")) == ["a"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("good", [0, CHUNK, 5 * CHUNK, 9 * CHUNK - 5])
@pytest.mark.parametrize("error", [None, OSError(errno.EIO, "Input/output error")])
def test_large_member_lost_half_way_never_comes_back_as_a_good_one(form, good, error, tmp_path):
    entries = [
        file("a", b"1"),
        failing("big.bin", 9 * CHUNK, good, error),
        file("z.bin", os.urandom(2 * CHUNK)),
    ]
    written = write(entries, tmp_path / "x", form)
    assert sorted(read(tmp_path / "x")) == ["a", "z.bin"]
    assert not written.complete
    assert [(remark.path, remark.outcome) for remark in written.remarks] == [("big.bin", "unreadable")]
    assert written.files == 2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [5, 3 * CHUNK])
@pytest.mark.parametrize("real", [-1, 1])
def test_content_that_is_not_the_size_it_says_is_not_stored(form, size, real, tmp_path):
    class Liar(Content):
        mtime_ns = WHEN

        def __init__(self):
            super().__init__()
            self.size = size

        def chunks(self):
            yield from (bytes(CHUNK) for _ in range((size + real) // CHUNK))
            yield bytes((size + real) % CHUNK)

        def close(self):
            pass

    written = write([Entry("b", Kind.FILE, 0o644, WHEN, size, open=Liar)], tmp_path / "x", form)
    assert read(tmp_path / "x") == {}
    assert "bytes came out of" in written.remarks[0].reason
    assert not written.complete


@pytest.mark.parametrize("form", FORMS)
def test_file_that_grew_since_it_was_listed_is_stored_as_it_is_now(form, tmp_path):
    data = os.urandom(3 * CHUNK)
    entry = Entry("log", Kind.FILE, 0o644, WHEN, 10, open=lambda: UnevenContent(data, CHUNK))
    assert write([entry, file("a", b"1")], tmp_path / "x", form).bytes == 3 * CHUNK + 1
    assert read(tmp_path / "x")["log"][4] == data


@pytest.mark.parametrize("form", FORMS)
def test_contents_that_were_never_read_are_closed_when_writing_fails(form, tmp_path):
    closed = []

    class Watched(UnevenContent):
        def close(self):
            closed.append(self)

    entries = [
        failing("big", 4 * CHUNK, CHUNK, ZeroDivisionError()),
        *(
            Entry(f"g{number}", Kind.FILE, 0o644, WHEN, 1, open=lambda: Watched(bytes(2 * CHUNK), CHUNK))
            for number in range(5)
        ),
    ]
    opened = []
    for number, entry in enumerate(entries[1:], 1):
        entries[number] = replace(entry, open=lambda entry=entry: opened.append(entry.open()) or opened[-1])
    with pytest.raises(ZeroDivisionError):
        write(entries, tmp_path / "x", form)
    assert sorted(map(id, opened)) == sorted(map(id, set(closed)))


@pytest.mark.parametrize("form", FORMS)
def test_incomplete_archive_goes_to_its_own_name(form, tmp_path):
    final, other = tmp_path / "final", tmp_path / "incomplete"
    entry = failing("b", 10, 0)
    written = write([entry], final, form, when_incomplete=str(other))
    assert written.path == str(other)
    assert sorted(os.listdir(tmp_path)) == ["incomplete"]
    assert write([file("a", b"")], final, form, when_incomplete=str(other)).path == str(final)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [600, 2 * CHUNK + 5])
def test_damaged_database_is_stored_and_named(form, size, tmp_path):
    facts = DatabaseFacts("damaged", "raw", "row 3 missing from index", 4096)
    data = os.urandom(size)
    entry = Entry(
        "state.db",
        Kind.FILE,
        0o600,
        WHEN,
        size,
        database=True,
        open=lambda: UnevenContent(data, CHUNK, facts),
    )
    written = write([entry], tmp_path / "x", form)
    assert written.damaged == ["state.db"]
    assert not written.complete
    with open_archive(str(tmp_path / "x")) as archive:
        assert archive.head["damaged"] == ["state.db"]
        assert [entry.database for entry in archive] == [True]
    assert read(tmp_path / "x")["state.db"][4] == data


@pytest.mark.parametrize("form", FORMS)
def test_manifest_of_an_earlier_import_in_the_home_does_not_collide(form, tmp_path):
    entries = [directory(".safekept"), file(".safekept/manifest.json", b"{}"), file("a", b"1")]
    written = write(entries, tmp_path / "x", form)
    assert list(read(tmp_path / "x")) == ["a"]
    assert {remark.path for remark in written.remarks} == {".safekept", ".safekept/manifest.json"}
    assert written.complete


@pytest.mark.parametrize("form", FORMS)
def test_crash_of_a_source_leaves_nothing_behind(form, tmp_path):
    class Broken(EntryList):
        def __iter__(self):
            yield file("a", os.urandom(3 * CHUNK))
            yield file("b", b"x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_archive(Broken([]), str(tmp_path / "x"), form=form, head={}, closing=dict)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("form", FORMS)
def test_crash_while_reading_large_content_is_raised_and_leaves_nothing(form, tmp_path):
    entry = failing("big", 4 * CHUNK, 2 * CHUNK, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        write([entry, *(file(f"f{number}", b"x") for number in range(2000))], tmp_path / "x", form)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("form", FORMS)
def test_interrupt_stops_both_lanes_and_leaves_nothing(form, tmp_path):
    class Interrupted(EntryList):
        def __iter__(self):
            yield file("big", os.urandom(20 * CHUNK))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_archive(Interrupted([]), str(tmp_path / "x"), form=form, head={}, closing=dict)
    assert os.listdir(tmp_path) == []


def test_missing_directory_is_said(tmp_path):
    with pytest.raises(OutputNotWritable) as caught:
        write([], tmp_path / "no" / "a.zip")
    error = caught.value
    assert error.code == "output-not-writable"
    assert error.what == f"The directory `{tmp_path}/no` does not exist"
    assert error.kept == "No archive was written, and no part of one was left behind"
    assert error.advice() == (
        "Name a directory that exists and that you may write to: `safekept backup -o DIRECTORY`",
    )


def test_directory_in_the_place_of_the_archive_is_said(tmp_path):
    with pytest.raises(OutputNotWritable, match="is a directory"):
        write([], tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputNotWritable, match="is not a directory"):
        write([], tmp_path / "file" / "a.zip")


@pytest.mark.parametrize("form", FORMS)
def test_write_error_is_typed_and_leaves_nothing(form, tmp_path, monkeypatch):
    import safekept.archive.container.output as output

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output, "write_all", full)
    with pytest.raises(NoRoom) as caught:
        write(sample_home(), tmp_path / "x", form)
    assert caught.value.what == f"There is no room for the archive in `{tmp_path}`: no space left on device"
    assert caught.value.kept == "No archive was written, and no part of one was left behind"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("which", [3, 40, 1000, 200_000])
def test_archive_that_does_not_read_back_never_gets_its_name(form, which, tmp_path, monkeypatch):
    """A disk or memory that changes a byte between writing and reading back."""
    import safekept.archive.writing as writing

    real = writing.prove

    def flip_then_prove(output, *rest):
        where = min(which, output.offset - 3000)
        byte = os.pread(output.descriptor, 1, where)
        os.pwrite(output.descriptor, bytes([byte[0] ^ 1]), where)
        real(output, *rest)

    monkeypatch.setattr(writing, "prove", flip_then_prove)
    with pytest.raises(ArchiveNotProven) as caught:
        write([file("a", os.urandom(400_000))], tmp_path / "x", form)
    assert caught.value.what.startswith("The archive did not read back as it was written: ")
    assert caught.value.kept == "No archive was written, and no part of one was left behind"
    assert os.listdir(tmp_path) == []


def test_existing_archive_survives_a_failed_run(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(b"precious")
    with pytest.raises(ZeroDivisionError):
        write([failing("big", 4 * CHUNK, CHUNK, ZeroDivisionError())], path)
    assert path.read_bytes() == b"precious"
    write([file("a", b"")], path)
    assert list(read(path)) == ["a"]


def test_leftovers_of_dead_processes_are_swept(tmp_path):
    (tmp_path / f".safekept-tmp-999999999-{process_space()}-abc").write_bytes(b"torn")
    mine = tmp_path / f".safekept-tmp-{os.getpid()}-{process_space()}-abc"
    mine.write_bytes(b"of a living process")
    write([file("a", b"")], tmp_path / "a.zip")
    assert sorted(os.listdir(tmp_path)) == sorted([mine.name, "a.zip"])


@pytest.mark.parametrize("form", FORMS)
def test_readme_says_how_to_restore_links_by_hand(form, tmp_path):
    import subprocess
    import zipfile

    path = tmp_path / f"a.{form}"
    write([link("odd 'name", "target $x")], path, form)
    if form == "zip":
        with zipfile.ZipFile(path) as archive:
            text = archive.read(".safekept/README.txt").decode()
        command = next(line for line in text.splitlines() if "ln -s" in line)
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
        assert os.readlink(tmp_path / "odd 'name") == "target $x"
    else:
        listing = subprocess.run(
            ["tar", "--zstd", "-tvf", path], capture_output=True, text=True, check=True
        ).stdout
        assert "odd 'name -> target $x" in listing


@pytest.mark.parametrize("form", FORMS)
def test_progress_is_told_for_both_phases(form, tmp_path):
    events = []
    write(sample_home(), tmp_path / "x", form, listener=events.append)
    assert {event.phase for event in events} == {"store", "verify"}
    last = [event for event in events if event.phase == "verify"][-1]
    assert last.done == last.total > 0


def test_a_signal_at_the_making_of_the_file_leaves_nothing(tmp_path, monkeypatch):
    """The file is there and nobody knows its descriptor yet; or it is handed over, and nobody took it."""
    real = os.open

    def interrupted(path, *given, **options):
        descriptor = real(path, *given, **options)
        if ".safekept-tmp-" in str(path):
            os.close(descriptor)
            raise KeyboardInterrupt
        return descriptor

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Output(str(tmp_path / "a.zip"))
    assert os.listdir(tmp_path) == []
    dropped = Output(str(tmp_path / "a.zip"))
    assert len(os.listdir(tmp_path)) == 1
    del dropped
    assert os.listdir(tmp_path) == []
