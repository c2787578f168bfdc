"""Archives open without us: the real unzip, zipinfo, Python's zipfile, GNU tar, zstd and Hermes."""

import os
import stat
import subprocess
import zipfile

import pytest

from safekept.core.entries import CHUNK, Content, Entry, Kind
from support.archives.sources import WHEN, directory, failing, file, link, read, sample_home, write

pytestmark = pytest.mark.real


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def expected(entries, links):
    return {
        entry.path: entry
        for entry in entries
        if entry.kind is not Kind.SYMLINK or links
    }  # fmt: skip


def compare(place, entries, links):
    """Everything that the tool restored is what went in, and nothing is missing."""
    wanted = expected(entries, links)
    found = set()
    for root, directories, files in os.walk(os.fsencode(place)):
        for name in [*directories, *files]:
            path = os.path.join(root, name)
            relative = os.fsdecode(os.path.relpath(path, os.fsencode(place)))
            if not relative.startswith(".safekept"):
                found.add(relative)
    assert found == set(wanted)
    for path, entry in wanted.items():
        real = os.path.join(str(place), path)
        facts = os.lstat(real)
        if entry.kind is Kind.SYMLINK:
            assert os.readlink(real) == entry.target
            continue
        assert stat.S_IMODE(facts.st_mode) == entry.mode, path
        if entry.kind is Kind.FILE:
            with open(real, "rb") as got, entry.open() as content:
                assert got.read() == b"".join(content.chunks()), path
            assert facts.st_mtime_ns // 10**9 == entry.mtime_ns // 10**9, path
            if links:  # tar: to the nanosecond
                assert facts.st_mtime_ns == entry.mtime_ns, path


def test_unzip_tests_and_restores_all_but_the_links(tmp_path, unzip):
    # unzip itself drops line ends and the byte 0xff out of names; those two are for the manifest.
    entries = [entry for entry in sample_home() if "\n" not in entry.path and "\udcff" not in entry.path]
    path = tmp_path / "a.zip"
    write(entries, path)
    done = run(unzip, "-t", path)
    assert b"No errors detected" in done.stdout
    run(unzip, "-q", path, "-d", tmp_path / "out", env={**os.environ, "LC_ALL": "C.UTF-8"})
    compare(tmp_path / "out", entries, links=False)


def test_unzip_restores_names_that_are_not_utf8(tmp_path, unzip):
    path = tmp_path / "a.zip"
    write([file("gr\udcf6\udce9.md", b"latin-1")], path)
    run(unzip, "-q", path, "-d", tmp_path / "out", env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert (tmp_path / "out" / "gr\udcf6\udce9.md").read_bytes() == b"latin-1"


def test_zipinfo_and_zip_find_nothing_to_complain_about(tmp_path, unzip):
    path = tmp_path / "a.zip"
    write(sample_home(), path)
    listing = run("zipinfo", path).stdout.decode("utf-8", "replace")
    assert "-rwxr-xr-x  2.0 unx" in listing
    assert "drwxr-x---" in listing
    done = run("zipinfo", "-v", path)
    assert b"warning" not in done.stdout.lower() + done.stderr.lower()


def test_python_zipfile_reads_every_member(tmp_path):
    entries, path = sample_home(), tmp_path / "a.zip"
    write(entries, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = {info.filename for info in archive.infolist()}
        assert archive.read("config.yaml") == b"model: {}\n"
    assert {".env", "cron/", "empty/", "skills/empty.md", ".safekept/manifest.json"} <= names
    assert "skills/current" not in names


def test_early_and_late_times_are_clamped_for_zip_and_true_in_the_manifest(tmp_path, unzip):
    times = {
        "y1970": 10**9,
        "y1979": 315_000_000 * 10**9,
        "y2050": 2_530_000_000 * 10**9,
        "y2200": 7_260_000_000 * 10**9,
    }
    path = tmp_path / "a.zip"
    write([file(name, b"x", mtime_ns=mtime + 7) for name, mtime in times.items()], path)
    run(unzip, "-tq", path)
    with zipfile.ZipFile(path) as archive:
        years = {info.filename: info.date_time[0] for info in archive.infolist()}
    assert (years["y1970"], years["y1979"], years["y2050"], years["y2200"]) == (1980, 1980, 2050, 2107)
    assert {name: found[2] for name, found in read(path).items()} == {
        name: mtime + 7 for name, mtime in times.items()
    }


def test_tar_and_zstd_restore_everything(tmp_path, zstd):
    entries, path = sample_home(), tmp_path / "a.tar.zst"
    write(entries, path, "tar.zst")
    run(zstd, "-tq", path)
    (tmp_path / "out").mkdir()
    done = run("tar", "--zstd", "-xpf", path, "-C", tmp_path / "out")
    assert done.stderr == b""
    compare(tmp_path / "out", entries, links=True)
    assert run("tar", "--zstd", "-df", path, "-C", tmp_path / "out").stdout == b""


def test_python_tarfile_reads_what_zstd_unpacks(tmp_path, zstd):
    import tarfile

    entries, path = sample_home(), tmp_path / "a.tar.zst"
    write(entries, path, "tar.zst")
    run(zstd, "-dq", path, "-o", tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as archive:
        names = {member.name for member in archive}
    assert {entry.path for entry in entries} <= names


@pytest.mark.parametrize("good", [0, 5 * CHUNK + 7])
def test_tools_stay_happy_with_a_member_lost_half_way(good, tmp_path, unzip, zstd):
    entries = [file("a", b"1"), failing("big.bin", 9 * CHUNK, good), file("z.bin", os.urandom(2 * CHUNK))]
    write(entries, tmp_path / "a.zip")
    run(unzip, "-tq", tmp_path / "a.zip")
    assert b"big.bin" not in run("zipinfo", "-1", tmp_path / "a.zip").stdout
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None
    write(entries, tmp_path / "a.tar.zst", "tar.zst")
    run(zstd, "-tq", tmp_path / "a.tar.zst")
    (tmp_path / "out").mkdir()
    run("tar", "--zstd", "-xpf", tmp_path / "a.tar.zst", "-C", tmp_path / "out")
    note = (tmp_path / "out" / "big.bin").read_text()
    assert note.startswith("This file could not be read to its end while the archive was made.")
    assert sorted(read(tmp_path / "a.tar.zst")) == ["a", "z.bin"]


def test_more_members_than_sixteen_bits_count(tmp_path, unzip):
    path = tmp_path / "a.zip"
    write([file(f"f{number}", b"") for number in range(66_000)], path)
    assert b"No errors detected" in run(unzip, "-tq", path).stdout
    with zipfile.ZipFile(path) as archive:
        assert len(archive.infolist()) == 66_003


def test_zip_of_info_zip_with_links_comes_back(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_bytes(b"x")
    (home / "größe").write_bytes(b"y" * 100)
    os.symlink("config.yaml", home / "l")
    run("zip", "-qry", tmp_path / "a.zip", ".", cwd=home)
    found = read(tmp_path / "a.zip")
    assert {name: (kind, target, body) for name, (kind, _, _, target, body) in found.items()} == {
        "config.yaml": ("file", "", b"x"),
        "größe": ("file", "", b"y" * 100),
        "l": ("symlink", "config.yaml", b""),
    }


def test_hermes_imports_our_zip(tmp_path, hermes):
    entries = [
        file(".env", b"KEY=value\n", 0o600),
        file("config.yaml", b"model: {}\n"),
        directory("memories"),
        file("memories/MEMORY.md", "größe \U0001f4be\n".encode()),
        file("sessions/big.jsonl", b"".join(b'{"n": %d}\n' % number for number in range(300_000))),
        link("memories/link.md", "MEMORY.md"),
    ]
    path = tmp_path / "a.zip"
    write(entries, path)
    home = tmp_path / "user" / ".hermes"
    home.mkdir(parents=True)
    environment = {"HOME": str(tmp_path / "user"), "HERMES_HOME": str(home), "PATH": os.environ["PATH"]}
    done = run(hermes, "import", path, "--force", env=environment, stdin=subprocess.DEVNULL)
    assert b"Import complete" in done.stdout
    for entry in entries:
        if entry.kind is Kind.FILE:
            with entry.open() as content:
                assert (home / entry.path).read_bytes() == b"".join(content.chunks())
    assert not (home / "memories/link.md").exists()


class Zeros(Content):
    """Gigabytes without a disk."""

    def __init__(self, size):
        super().__init__()
        self.size, self.mtime_ns = size, WHEN

    def chunks(self):
        block = bytes(CHUNK)
        for start in range(0, self.size, CHUNK):
            yield block[: self.size - start]

    def close(self):
        pass


@pytest.mark.soak("archive")
def test_members_and_offsets_beyond_four_gigabytes(tmp_path, unzip, zstd):
    """Zip64 exactly where it is needed: a size, and an offset, that 32 bits cannot hold."""
    noise = os.urandom(CHUNK)

    class Noise(Zeros):
        def chunks(self):
            for _ in range(self.size // CHUNK):
                yield noise

    size = (4 << 30) + 5 * CHUNK
    entries = [
        Entry("a-zeros", Kind.FILE, 0o600, WHEN, size, open=lambda: Zeros(size)),
        Entry("b-noise", Kind.FILE, 0o600, WHEN, size, open=lambda: Noise(size)),
        Entry("c-large", Kind.FILE, 0o600, WHEN, 2 * CHUNK, open=lambda: Noise(2 * CHUNK)),
        file("small", b"x"),
    ]
    write(entries, tmp_path / "a.zip")
    run(unzip, "-tq", tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None
        assert {info.filename: info.file_size for info in archive.infolist()}["b-noise"] == size
        assert any(info.header_offset > 1 << 32 for info in archive.infolist())
    os.unlink(tmp_path / "a.zip")
    write(entries, tmp_path / "a.tar.zst", "tar.zst")
    run(zstd, "-tq", tmp_path / "a.tar.zst")
    listing = run("tar", "--zstd", "-tvf", tmp_path / "a.tar.zst").stdout.decode()
    assert f" {size} " in listing
