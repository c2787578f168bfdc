"""Archives that others made: Hermes's zips, zips of any tool, tarballs packed by hand."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import tarfile
import time
import zipfile

import pytest
import zstandard

from safekept.archive import ReadLimits, open_archive
from safekept.archive.errors import ArchiveUnsafe
from safekept.core.entries import CHUNK
from support.archives.sources import facts, read

LOCAL = (2024, 5, 6, 7, 8, 10)
LOCAL_NS = int(time.mktime((*LOCAL, 0, 0, -1))) * 10**9


def member(name, data, mode=0o644, method=zipfile.ZIP_DEFLATED):
    info = zipfile.ZipInfo(name, LOCAL)
    info.compress_type, info.external_attr = method, (0o100000 | mode) << 16
    return info, data


def zip_with(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for info, data in members:
            archive.writestr(info, data)
    return path


@pytest.mark.parametrize("size", [0, 5, 3 * CHUNK + 1])
@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_zip_members_of_every_method(method, size, tmp_path):
    data = (b"words and %d more words\n" % size) * (size // 20 + 1)
    data = data[:size]
    path = zip_with(tmp_path / "a.zip", member("config.yaml", data, 0o640, method))
    assert read(path) == {"config.yaml": ("file", 0o640, LOCAL_NS, "", data)}


def test_zip_as_hermes_makes_it(tmp_path):
    source = tmp_path / "home"
    (source / "skills").mkdir(parents=True)
    (source / "skills" / "größe.md").write_bytes(b"words")
    (source / "config.yaml").write_bytes(b"model: x\n")
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for item in sorted(source.rglob("*.*")):
            archive.write(item, item.relative_to(source))
    with open_archive(str(tmp_path / "a.zip")) as archive:
        assert archive.head is None
        assert archive.form == "zip"
        assert {entry.path: entry.size for entry in archive} == {"config.yaml": 9, "skills/größe.md": 5}


def test_stale_manifest_inside_a_foreign_zip_is_passed_over(tmp_path):
    """Hermes restores our manifest into the home, and the next `hermes backup` packs it."""
    stale = b'{"format":"safekept-archive","version":1}'
    path = zip_with(tmp_path / "a.zip", member("config.yaml", b"x"), member(".safekept/manifest.json", stale))
    with open_archive(str(path)) as archive:
        assert [entry.path for entry in archive] == ["config.yaml"]
        assert [(remark.path, remark.outcome) for remark in archive.remarks] == [
            (".safekept/manifest.json", "excluded")
        ]


def test_zip_links_and_special_files(tmp_path):
    first, second, third = (zipfile.ZipInfo(name, LOCAL) for name in ("in", "out", "pipe"))
    first.external_attr, second.external_attr = 0o120777 << 16, 0o120777 << 16
    third.external_attr = 0o010644 << 16
    path = zip_with(tmp_path / "a.zip", (first, b"config.yaml"), (second, b"../x"), (third, b""))
    with open_archive(str(path)) as archive:
        assert {entry.path: (entry.kind, entry.target) for entry in archive} == {
            "in": ("symlink", "config.yaml"),
            "out": ("symlink", "../x"),
        }
        assert {(remark.path, remark.outcome) for remark in archive.remarks} == {
            ("out", "noted"),
            ("pipe", "passed-over"),
        }


def test_zip_with_bytes_in_front_and_a_comment(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.yaml", b"x")
        archive.comment = b"made by hand"
    path.write_bytes(b"#!/bin/sh self extractor\n" + path.read_bytes())
    assert read(path)["config.yaml"][4] == b"x"


def test_zip_without_members_is_empty_and_not_an_error(tmp_path):
    assert read(zip_with(tmp_path / "a.zip")) == {}


def tar_bytes(*members, form=tarfile.PAX_FORMAT):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, kind, data, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size, info.mtime = kind, target, len(data), 1_600_000_000.25
            info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o640
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


HOME = (
    (".hermes", tarfile.DIRTYPE, b"", ""),
    (".hermes/config.yaml", tarfile.REGTYPE, b"model: x\n", ""),
    (".hermes/" + "n" * 120, tarfile.REGTYPE, os.urandom(CHUNK + 100), ""),
    (".hermes/link", tarfile.SYMTYPE, b"", "config.yaml"),
    (".hermes/empty", tarfile.REGTYPE, b"", ""),
)
PACKERS = {
    "tar": lambda data: data,
    "tar.gz": gzip.compress,
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
    "tar.zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("packing", PACKERS)
def test_tarballs_of_every_packing_and_dialect(packing, form, tmp_path):
    members = [
        entry if len(entry[0]) < 100 or form != tarfile.USTAR_FORMAT else (entry[0][:90], *entry[1:])
        for entry in HOME
    ]
    path = tmp_path / "backup.zip"  # known by content, not by name
    path.write_bytes(PACKERS[packing](tar_bytes(*members, form=form)))
    mtime = 1_600_000_000_250_000_000 if form == tarfile.PAX_FORMAT else 1_600_000_000_000_000_000
    with open_archive(str(path)) as archive:
        assert archive.form == packing
        assert archive.ordered
        found = facts(archive)
        archive.finish()
    assert found == {
        name: (
            {tarfile.REGTYPE: "file", tarfile.DIRTYPE: "directory", tarfile.SYMTYPE: "symlink"}[kind],
            {tarfile.REGTYPE: 0o640, tarfile.DIRTYPE: 0o755, tarfile.SYMTYPE: 0}[kind],
            mtime,
            target,
            data,
        )
        for name, kind, data, target in members
    }


@pytest.mark.parametrize("packing", ["tar.gz", "tar.bz2", "tar.xz", "tar.zst"])
def test_tarballs_in_several_streams(packing, tmp_path):
    data, path = tar_bytes(*HOME), tmp_path / "a"
    path.write_bytes(
        b"".join(
            PACKERS[packing](data[start : start + 1_000_000]) for start in range(0, len(data), 1_000_000)
        )
    )
    assert read(path)[".hermes/config.yaml"][4] == b"model: x\n"


@pytest.mark.real
def test_tarball_of_the_directory_itself_and_sparse_and_hard_links(tmp_path):
    """`tar -C home -czSf x .`: names begin with `./`, holes are holes, second names are copies."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "a").write_bytes(b"first")
    os.link(home / "a", home / "b")
    os.link(home / "a", home / "c")
    with open(home / "holes", "wb") as holes:
        for offset in (0, 500_000, 2_000_000):
            holes.seek(offset)
            holes.write(b"data %d" % offset)
        holes.truncate(3_000_000)
    os.symlink("a", home / "l")
    os.mkfifo(home / "pipe")
    dialects = ("--format=gnu", "--format=pax", "--sparse-version=0.0", "--sparse-version=0.1")
    for number, dialect in enumerate(dialects):
        options = [dialect] if "format" in dialect else ["--format=pax", dialect]
        path = tmp_path / f"{number}.tar.gz"
        subprocess.run(["tar", *options, "-C", home, "-czSf", path, "."], check=True)
        with open_archive(str(path)) as archive:
            found = facts(archive)
            assert [remark.path for remark in archive.remarks] == ["pipe"]
            assert archive.remarks[0].outcome == "passed-over"
        assert {name: body for name, (*_, body) in found.items() if body} == {
            "a": b"first", "b": b"first", "c": b"first", "holes": (home / "holes").read_bytes(),
        }, options  # fmt: skip
        assert found["l"][3] == "a"


def test_hard_link_to_something_that_is_not_there_is_refused(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(tar_bytes(("x", tarfile.LNKTYPE, b"", "etc/passwd")))
    with pytest.raises(ArchiveUnsafe, match="a second name for `etc/passwd`, which is not in it"):
        read(path)


def test_many_names_of_one_file_count_as_many_files(tmp_path):
    members = [("big", tarfile.REGTYPE, bytes(1000), "")] + [
        (f"l{n}", tarfile.LNKTYPE, b"", "big") for n in range(20)
    ]
    path = tmp_path / "a.tar"
    path.write_bytes(tar_bytes(*members))
    assert len(read(path, ReadLimits(free_bytes=21_000))) == 21
    from safekept.archive.errors import ArchiveTooLarge

    with pytest.raises(ArchiveTooLarge):
        read(path, ReadLimits(free_bytes=20_999))


def test_devices_in_a_tar_are_passed_over(tmp_path):
    members = [("config.yaml", tarfile.REGTYPE, b"x", "")] + [
        (f"d{kind.decode()}", kind, b"", "") for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
    ]
    path = tmp_path / "a.tar"
    path.write_bytes(tar_bytes(*members))
    with open_archive(str(path)) as archive:
        assert [entry.path for entry in archive] == ["config.yaml"]
        assert [(remark.path, remark.outcome, remark.reason) for remark in archive.remarks] == [
            ("d3", "passed-over", "a device: there are no bytes to keep"),
            ("d4", "passed-over", "a device: there are no bytes to keep"),
            ("d6", "passed-over", "a pipe: there are no bytes to keep"),
        ]


@pytest.mark.parametrize(
    ("mode", "what"), [(0o010644, "a pipe"), (0o140644, "a socket"), (0o020644, "a device")]
)
def test_special_files_in_a_zip_are_passed_over_by_name(mode, what, tmp_path):
    special = zipfile.ZipInfo("odd", LOCAL)
    special.external_attr = mode << 16
    with open_archive(str(zip_with(tmp_path / "a.zip", (special, b"")))) as archive:
        assert list(archive) == []
        (remark,) = archive.remarks
        assert (remark.path, remark.outcome) == ("odd", "passed-over")
        assert remark.reason == f"{what}: there are no bytes to keep"
