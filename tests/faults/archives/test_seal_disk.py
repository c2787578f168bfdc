"""Sealing on the way to the disk: no clear text on it at any time, flat memory, and clean failures."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from conftest import program
from safekept.actions.archives.backup import BackupRequest, backup
from safekept.archive import open_archive
from safekept.archive.container import account
from safekept.archive.sealing.age import keys as age_keys
from safekept.archive.sealing.age.keys import AgeIdentity
from safekept.archive.sealing.errors import GpgFailed
from safekept.archive.sealing.gpg import output as gpg_output
from safekept.core.entries import CHUNK
from safekept.core.files import NoRoom
from support.archives.seals import given, keyring, opener, seal_to
from support.archives.sources import FORMS, facts, file, sample_home, write
from support.home.homes import make_hermes_home
from support.places import TESTS
from support.users.contexts import throwaway

ME = AgeIdentity.generate()
PUBLIC = str(ME.recipient)
#: In a name, and in content that no packer shortens.
NAME, NOISE = b"marker-of-a-name", os.urandom(64)


@pytest.fixture(autouse=True)
def quick_passphrases(monkeypatch):
    """The second that a passphrase costs on purpose is proven elsewhere, with the real age."""
    monkeypatch.setattr(age_keys, "WORK", 10)


@pytest.fixture(scope="module")
def gpg():
    program("gpg")
    with keyring() as made:
        made.make("keeper")
        yield made


def recipients(kind, gpg):
    return {"age": PUBLIC, "gpg": "gpg:keeper", "passphrase": "passphrase"}[kind]


def bytes_on_disk(places):
    """Everything that lies in these directories, files without a name that somebody holds open included."""
    for place in places:
        for directory, _, names in os.walk(place):
            for name in names:
                path = os.path.join(directory, name)
                yield path.encode()
                try:
                    with open(path, "rb") as stream:
                        yield stream.read()
                except FileNotFoundError:
                    continue
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if any(target.startswith(place + "/") for place in places):
                with open(f"/proc/self/fd/{descriptor}", "rb") as stream:
                    yield stream.read()
        except OSError:
            continue


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["age", "gpg", "open"])
def test_no_clear_text_is_on_the_disk_while_or_after_sealing(kind, form, gpg, tmp_path, monkeypatch):
    """What is set aside until the end is written to the disk early here, as in a home of a million files."""
    monkeypatch.setattr(account, "_IN_MEMORY", 4096)
    home = tmp_path / "home"
    make_hermes_home(str(home))
    for number in range(300):
        (home / "skills" / f"{NAME.decode()}-{number}").write_bytes(NOISE + os.urandom(1500))
    here = throwaway(tmp_path, environment=gpg.environment)
    out = tmp_path / "out"
    out.mkdir()
    places = [str(out), here.places.data_directory]
    seen = []

    def look(event):
        found = b"\n".join(bytes_on_disk(places))
        seen.append((NAME in found, NOISE in found))

    sealed = () if kind == "open" else (recipients(kind, gpg),)
    request = BackupRequest(here.locate(str(home)), f"{out}/", form, seal=sealed)
    result = backup(here, request, look)
    look(None)
    assert result.written.files > 300
    assert len(seen) > 4
    if kind == "open":  # the looking itself works: what is not sealed is found
        assert any(content for _, content in seen) and any(name for name, _ in seen)
    else:
        assert set(seen) == {(False, False)}
    assert os.listdir(out) == [os.path.basename(result.written.path)]
    if sealed:
        assert os.listdir(os.path.join(here.places.data_directory, "scratch")) == []


MEASURE = """
import json, os, sys
sys.path[:0] = json.loads(sys.argv[1])
from support.archives.sources import HEAD, WHEN
from safekept.archive import open_archive, write_archive
from safekept.core.entries import CHUNK, BytesContent, Content, Entry, Kind
from support.home.entry_list import EntryList
from support.archives.seals import opener, seal_to

to, form, path, megabytes, environment, key = json.loads(sys.argv[2])
noise = os.urandom(CHUNK)

class Noise(Content):
    def __init__(self):
        super().__init__()
        self.size, self.mtime_ns = megabytes << 20, WHEN
    def chunks(self):
        for number in range(megabytes):
            yield number.to_bytes(8, "big") + noise[8:]
    def close(self):
        pass

entries = [Entry("state.db", Kind.FILE, 0o600, WHEN, megabytes << 20, database=True, open=Noise)]
small = lambda: BytesContent(b"some text", WHEN)
entries += [Entry(f"f{n}", Kind.FILE, 0o600, WHEN, 9, open=small) for n in range(50)]
if to:
    seal = seal_to(to, environment=environment)
    write_archive(EntryList(entries), path, form=form, head=HEAD, closing=dict, seal=seal)
else:
    identity = opener(*([key] if key else []), environment=environment)
    with open_archive(path, identity=identity) as archive:
        for entry in archive:
            with entry.open() as content:
                for chunk in content.chunks():
                    pass
with open("/proc/self/status") as status:  # what getrusage says is, after a fork, that of the parent
    print(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""


def peak(to, form, path, megabytes, environment, key=""):
    words = [sys.executable, "-c", MEASURE, json.dumps([TESTS])]
    done = subprocess.run(
        [*words, json.dumps([to, form, str(path), megabytes, environment, str(key)])],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout) >> 10


def test_memory_does_not_grow_with_the_archive(gpg, tmp_path):
    compare_peaks("age", "zip", gpg, tmp_path, (24, 144))


@pytest.mark.soak("seal")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["age", "gpg"])
def test_memory_does_not_grow_with_a_large_archive(kind, form, gpg, tmp_path):
    compare_peaks(kind, form, gpg, tmp_path, (64, 1024))


def compare_peaks(kind, form, gpg, tmp_path, sizes):
    """In a process of its own: many times the content, the same peak, writing and reading."""
    (tmp_path / "key").write_text(ME.text)
    key = tmp_path / "key" if kind == "age" else ""
    peaks = []
    for megabytes in sizes:
        path = tmp_path / f"a{megabytes}"
        wrote = peak(recipients(kind, gpg), form, path, megabytes, gpg.environment)
        peaks.append((wrote, peak("", form, path, megabytes, gpg.environment, key)))
        path.unlink()
    (small_write, small_read), (large_write, large_read) = peaks
    # Reading a stream keeps a window of it; beyond that nothing grows.
    assert large_write - small_write < 40, peaks
    assert large_read - small_read < 50, peaks
    assert max(large_write, large_read) < 250, peaks


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["age", "gpg"])
def test_a_full_disk_is_said_and_leaves_nothing(kind, form, gpg, small_filesystem):
    place = small_filesystem(1024)
    noise = [file(f"f{number:04}", os.urandom(3000)) for number in range(200)]
    entries = [*noise, file("state.db", os.urandom(3 * CHUNK), database=True)]
    seal = seal_to(recipients(kind, gpg), environment=gpg.environment)
    with pytest.raises(NoRoom) as caught:
        write(entries, f"{place}/a", form, seal=seal)
    assert caught.value.what == f"There is no room for the archive in `{place}`: no space left on device"
    assert caught.value.kept == "No archive was written, and no part of one was left behind"
    assert os.listdir(place) == []
    write([file("a", b"1")], f"{place}/a", form, seal=seal)


@pytest.mark.parametrize("form", FORMS)
def test_a_gpg_that_dies_in_the_middle_leaves_nothing(form, gpg, tmp_path, monkeypatch):
    seal = seal_to("gpg:keeper", environment=gpg.environment)
    real = gpg_output.GpgOutput.write
    calls = []

    def dying(self, data):
        real(self, data)
        calls.append(len(data))
        if len(calls) == 2:
            self._run.process.kill()
            self._run.process.wait()

    monkeypatch.setattr(gpg_output.GpgOutput, "write", dying)
    with pytest.raises(GpgFailed) as caught:
        write(sample_home(), tmp_path / "a", form, seal=seal)
    assert caught.value.what.startswith("gpg did not seal the archive: ")
    assert caught.value.kept == "No archive was written, and no part of one was left behind"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("kind", "form"),
    [("age", "zip"), ("age", "tar.zst"), ("gpg", "zip"), ("gpg", "tar.zst"), ("passphrase", "zip")],
)
def test_a_sealed_archive_that_the_disk_changes_is_never_named(kind, form, gpg, tmp_path, monkeypatch):
    """Reading back is real: one bit changed on the disk after writing, anywhere, and there is no archive."""
    from safekept.archive import writing

    real = writing.prove
    places = iter([0.02, 0.5, 0.999])

    def prove(output, *rest):
        (name,) = [name for name in os.listdir(tmp_path) if name.startswith(".safekept-tmp-")]
        with open(tmp_path / name, "r+b") as disk:
            place = int(os.path.getsize(tmp_path / name) * next(places))
            disk.seek(place)
            byte = disk.read(1)
            disk.seek(place)
            disk.write(bytes([byte[0] ^ 4]))
        real(output, *rest)

    monkeypatch.setattr(writing, "prove", prove)
    seal = seal_to(recipients(kind, gpg), environment=gpg.environment)
    entries = [file("a", os.urandom(200_000)), file("b", b"text" * 1000)]
    for _ in range(3 if kind != "passphrase" else 1):
        with pytest.raises(Exception) as caught:
            write(entries, tmp_path / "a", form, seal=seal)
        assert caught.value.code == "archive-not-proven", caught.value
        assert os.listdir(tmp_path) == []


def test_a_sealed_zip_from_gpg_is_read_in_its_order_with_one_run_for_its_content(gpg, tmp_path, monkeypatch):
    from safekept.archive.sealing.gpg import message as gpg_stream

    monkeypatch.setattr("safekept.archive.sealing.proven_stream._TAIL", 1 << 20)
    entries = [file(f"z{number:03}", os.urandom(400_000)) for number in range(30, 0, -1)]
    write(entries, tmp_path / "a.gpg", "zip", seal=seal_to("gpg:keeper", environment=gpg.environment))
    runs = []
    real = gpg_stream.Gpg

    def counted(*words, **more):
        runs.append(words)
        return real(*words, **more)

    monkeypatch.setattr(gpg_stream, "Gpg", counted)
    with open_archive(str(tmp_path / "a.gpg"), identity=opener(environment=gpg.environment)) as archive:
        assert archive.ordered
        found = facts(archive)
    assert len(found) == 30 and found["z007"][4] == facts(entries)["z007"][4]
    assert len(runs) == 2


def test_a_passphrase_is_on_no_process_list_and_in_no_record(gpg, tmp_path, monkeypatch):
    """Seen while gpg runs: command lines and environments; afterwards, everything that was written."""
    secret = f"of this test alone {os.urandom(8).hex()}"  # other tests run beside it, with others
    here = throwaway(
        tmp_path, environment=gpg.environment, ask_passphrase=given(secret), passphrase_is_given=True
    )
    home = tmp_path / "home"
    make_hermes_home(str(home))
    seen = []

    def look(event):
        for process in os.listdir("/proc"):
            for name in ("cmdline", "environ"):
                try:
                    with open(f"/proc/{process}/{name}", "rb") as stream:
                        seen.append(stream.read())
                except OSError:
                    continue

    real = gpg_output.GpgOutput.write

    def watched(self, data):
        real(self, data)
        look(None)

    monkeypatch.setattr(gpg_output.GpgOutput, "write", watched)
    for to in ("passphrase", "gpg-symmetric"):
        request = BackupRequest(here.locate(str(home)), f"{tmp_path}/out/", seal=(to,))
        backup(here, request, look)
    with pytest.raises(Exception, match="neither a key nor a file"):
        backup(here, replace(request, seal=(secret,)))
    assert any(b"--passphrase-fd" in text for text in seen)
    assert not any(secret.encode() in text for text in seen)
    written = b"".join(bytes_on_disk([here.places.data_directory]))
    assert b"gpg-symmetric" in written and secret.encode() not in written
