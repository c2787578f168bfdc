"""Every kind of bad archive: one typed error with what, kept and next, and nothing allocated by a lie."""

import io
import os
import resource
import struct
import tarfile
import tracemalloc
import zipfile
import zlib

import pytest
import zstandard

from safekept.archive import ReadLimits, open_archive
from safekept.archive.errors import (
    ArchiveDamaged,
    ArchiveLocked,
    ArchiveNotFound,
    ArchiveTooLarge,
    ArchiveUnknown,
    ArchiveUnreadable,
    ArchiveUnsafe,
    ArchiveUnsupported,
)
from support.archives.sources import FORMS, file, link, read, sample_home, write

DAMAGED_NEXT = (
    "Copy the archive again from where it came from, and compare the sizes",
    "Use an older archive, if there is one",
)


def refused(path, kind, what, limits=None):
    with pytest.raises(kind) as caught:
        read(path, limits)
    error = caught.value
    assert error.what == what, error.what
    assert error.kept == "Nothing was changed"
    assert error.advice()
    return error


def test_missing(tmp_path):
    path = tmp_path / "a.zip"
    error = refused(path, ArchiveNotFound, f"There is no archive `{path}`")
    assert error.advice() == ("Check the name, and give the whole path",), "no command that fails again"


def test_directory_and_pipe(tmp_path):
    refused(tmp_path, ArchiveUnreadable, f"`{tmp_path}` is a directory, not an archive")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", ArchiveUnreadable, f"`{tmp_path}/pipe` is not a regular file")


def test_unreadable(tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    write([], path)

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", denied)
    error = refused(path, ArchiveUnreadable, f"`{path}` cannot be read: permission denied")
    assert error.advice() == ("Check that you may read the file, and that its disk is sound",)


def test_disk_that_fails_while_reading(tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    write([], path)

    def broken(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.pread", broken)
    refused(path, ArchiveUnreadable, f"`{path}` cannot be read: input/output error")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b"x", "is not an archive"),
        (b"just some notes\n" * 100, "is not an archive"),
        (bytes(20_000), "is not an archive"),
        (os.urandom(9999), "is not an archive"),
    ],
)
def test_not_an_archive(data, what, tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    error = refused(path, ArchiveUnknown, f"`{path}` {what}")
    assert error.advice() == (
        "Archives that can be read: zip, and tar plain or packed with zstd, gzip, bzip2 or xz",
        "Check that the copy or download of it came to an end",
    )


def test_packed_something_that_is_not_a_tar(tmp_path):
    import gzip

    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(b"hello" * 1000))
    refused(path, ArchiveUnknown, f"`{path}` is not an archive: what is packed in it is not a tar")


def zip_with(path, *names):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), b"data")
    return path


def patch(path, old, new, count):
    data = path.read_bytes()
    assert data.count(old) == count
    path.write_bytes(data.replace(old, new))
    return path


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../up", "a path that leaves the target by `..`"),
        ("a/../../up", "a path that leaves the target by `..`"),
        ("a/..", "a path that leaves the target by `..`"),
        ("/etc/passwd", "an absolute path"),
        ("C:/boot.ini", "a path with a drive letter"),
        ("c:evil", "a path with a drive letter"),
        ("..\\up", "a path that leaves the target by backslashes"),
        ("a\\..\\..\\up", "a path that leaves the target by backslashes"),
        ("\\\\server\\share", "a path that leaves the target by backslashes"),
    ],
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_names_that_leave_the_target(kind, name, reason, tmp_path):
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        zip_with(path, "config.yaml", name)
    else:
        tar_with(path, ("config.yaml", b"0", b"x", ""), (name, b"0", b"x", ""))
    error = refused(path, ArchiveUnsafe, f"`{path}` holds `{name}`, {reason}")
    assert error.advice() == (
        "Do not use this archive unless you know who made it",
        "Make a new one from the original home with `safekept backup`",
    )


def tar_with(path, *members):
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, kind, data, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(data), target
            archive.addfile(info, io.BytesIO(data))
    return path


def test_nul_in_a_name(tmp_path):
    path = patch(zip_with(tmp_path / "a.zip", "evil_txt"), b"evil_txt", b"evil\0txt", 2)
    refused(path, ArchiveUnsafe, f"`{path}` holds `evil\\0txt`, a name with a NUL byte")


def test_duplicates_also_after_normalising(tmp_path):
    path = patch(zip_with(tmp_path / "a.zip", "same", "sama"), b"sama", b"same", 2)
    refused(path, ArchiveUnsafe, f"`{path}` holds `same`, the same name twice")
    path = zip_with(tmp_path / "b.zip", "d/same", "./d//same")
    refused(path, ArchiveUnsafe, f"`{path}` holds `d/same`, the same name twice")
    path = tar_with(tmp_path / "c.tar", ("same", b"0", b"1", ""), ("./same", b"0", b"2", ""))
    refused(path, ArchiveUnsafe, f"`{path}` holds `same`, the same name twice")


def test_directory_listed_twice_is_no_harm(tmp_path):
    path = tar_with(tmp_path / "c.tar", ("d", b"5", b"", ""), ("d", b"5", b"", ""), ("d/f", b"0", b"1", ""))
    assert sorted(read(path)) == ["d", "d/f"]


def test_case_collisions_only_where_the_target_folds_case(tmp_path):
    path = zip_with(tmp_path / "a.zip", "Notes.md", "notes.md")
    assert sorted(read(path)) == ["Notes.md", "notes.md"]
    what = f"`{path}` holds `notes.md`, which the target cannot tell from `Notes.md`: it ignores case"
    refused(path, ArchiveUnsafe, what, ReadLimits(folds_case=True))


@pytest.mark.parametrize("order", [1, -1])
def test_path_through_a_link_or_a_file(order, tmp_path):
    members = [("skills", b"2", b"", "/etc"), ("skills/deep/passwd", b"0", b"x", "")]
    path = tar_with(tmp_path / "a.tar", *members[::order])
    refused(path, ArchiveUnsafe, f"`{path}` holds `skills/deep/passwd`, a path through the link `skills`")
    path = zip_with(tmp_path / "a.zip", *["skills", "skills/x"][::order])
    refused(path, ArchiveUnsafe, f"`{path}` holds `skills/x`, a path through the file `skills`")


def test_password(tmp_path):
    path = zip_with(tmp_path / "a.zip", "config.yaml")
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    error = refused(path, ArchiveLocked, f"`{path}` is protected by a password: `config.yaml` is encrypted")
    assert error.code == "archive-has-password"


def test_method_we_do_not_know(tmp_path):
    path = zip_with(tmp_path / "a.zip", "config.yaml")
    data = bytearray(path.read_bytes())
    data[8] = data[data.index(b"PK\x01\x02") + 10] = 99
    path.write_bytes(data)
    refused(
        path, ArchiveUnsupported, f"`{path}` cannot be read here: `config.yaml` is compressed by method 99"
    )


def test_zip_in_parts(tmp_path):
    path = zip_with(tmp_path / "a.zip", "config.yaml")
    data = bytearray(path.read_bytes())
    data[-18] = 1
    path.write_bytes(data)
    refused(
        path, ArchiveUnsupported, f"`{path}` cannot be read here: it is one part of a zip in several parts"
    )


# -- bombs -----------------------------------------------------------------------------------------


def lying_zip(path, declared, real):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = packer.compress(bytes(real)) + packer.flush()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("state.db", body)
    data = bytearray(path.read_bytes())
    central = data.index(b"PK\x01\x02")
    crc = zlib.crc32(bytes(declared))
    struct.pack_into("<H", data, 8, 8)
    struct.pack_into("<3I", data, 14, crc, len(body), declared)
    struct.pack_into("<H", data, central + 10, 8)
    struct.pack_into("<3I", data, central + 16, crc, len(body), declared)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("declared", [10, 3 << 20])
def test_member_that_unpacks_to_more_than_it_claims(declared, tmp_path):
    path = lying_zip(tmp_path / "a.zip", declared, 60 << 20)
    tracemalloc.start()
    error = refused(
        path, ArchiveDamaged, f"`{path}` is damaged: `state.db`: it unpacks to more than it claims"
    )
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()
    assert error.advice() == DAMAGED_NEXT


def test_member_that_unpacks_to_less_than_it_claims(tmp_path):
    path = lying_zip(tmp_path / "a.zip", 100, 10)
    refused(path, ArchiveDamaged, f"`{path}` is damaged: `state.db`: it unpacks to less than it claims")


def test_ratio_count_and_room(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(3_000_000))
        archive.writestr("b", b"")
    what = f"`{path}` unpacks to more than 250 times its size"
    error = refused(path, ArchiveTooLarge, what, ReadLimits(ratio_floor=1_000_000))
    assert error.advice()[1] == "If you do, and there is room for it: `safekept import FILE --no-limits`"
    refused(path, ArchiveTooLarge, f"`{path}` holds more than 1 members", ReadLimits(count=1))
    what = f"`{path}` unpacks to more than the 2,999,999 bytes free where it shall land"
    refused(path, ArchiveTooLarge, what, ReadLimits(free_bytes=2_999_999))
    assert len(read(path)) == 2


def test_bombs_in_tars_are_refused_before_they_are_unpacked(tmp_path):
    """Terabytes in a few kilobytes: a header that claims them is enough."""
    info = tarfile.TarInfo("zeros")
    info.size = 1 << 42
    header = info.tobuf(tarfile.GNU_FORMAT)
    packed = zstandard.ZstdCompressor().compress(header + bytes(64 << 20))
    path = tmp_path / "a.tar.zst"
    path.write_bytes(packed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(path, ArchiveTooLarge, f"`{path}` unpacks to more than 250 times its size")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 << 10
    refused(
        path,
        ArchiveTooLarge,
        f"`{path}` unpacks to more than the 5 bytes free where it shall land",
        ReadLimits(free_bytes=5),
    )


def test_own_archive_of_a_highly_compressible_home_is_not_taken_for_a_bomb(tmp_path):
    entry = file("disk.img", bytes(40 << 20))
    write([entry], tmp_path / "a", "tar.zst")
    assert len(read(tmp_path / "a", ReadLimits(ratio_floor=1 << 20))) == 1


def test_manifest_that_lists_more_than_there_are_members_is_bounded(tmp_path):
    """Links are no members of a zip, so only the manifest says how many there are."""
    path = tmp_path / "a.zip"
    write([link(f"l{number}", "x") for number in range(50)], path)
    assert len(read(path, ReadLimits(count=50))) == 50
    refused(path, ArchiveTooLarge, f"`{path}` holds more than 49 members", ReadLimits(count=49))
    write([link(f"l{number}", "x") for number in range(50)], path, "tar.zst")
    refused(path, ArchiveTooLarge, f"`{path}` holds more than 49 members", ReadLimits(count=49))


def test_overlapping_members(tmp_path):
    """The densest bombs let many directory lines share one body."""
    path = zip_with(tmp_path / "a.zip", "aaaa", "bbbb")
    data = bytearray(path.read_bytes())
    second = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    struct.pack_into("<I", data, second + 42, 0)
    path.write_bytes(data)
    error = refused(path, ArchiveDamaged, f"`{path}` is damaged: `aaaa`: it overlaps another member")
    assert error.code == "archive-damaged"


def test_zstd_window_of_gigabytes_is_not_allocated(tmp_path):
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=29)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path = tmp_path / "a.tar.zst"
    path.write_bytes(packer.compress(bytes(4096)) + packer.flush())
    refused(path, ArchiveUnsupported, f"`{path}` cannot be read here: it needs too much memory to unpack")


# -- ours, altered ---------------------------------------------------------------------------------


def test_member_added_to_our_zip_afterwards(tmp_path):
    path = tmp_path / "a.zip"
    write([file("a", b"1")], path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("added.txt", b"x")
    refused(path, ArchiveDamaged, f"`{path}` is damaged: `added.txt`: it is not in the manifest")


def test_member_replaced_in_our_zip_afterwards(tmp_path):
    path = tmp_path / "a.zip"
    write([file("a", b"1" * 50)], path)
    with zipfile.ZipFile(path) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
        comment = archive.comment
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = comment
        for info, data in members:
            archive.writestr(info, b"2" * 50 if info.filename == "a" else data)
    refused(path, ArchiveDamaged, f"`{path}` is damaged: `a`: its SHA-256 is not the one in the manifest")


@pytest.mark.parametrize("form", FORMS)
def test_manifest_of_a_newer_version(form, tmp_path, monkeypatch):
    import safekept.archive.container.manifest as manifest

    path = tmp_path / "a"
    monkeypatch.setattr(manifest, "VERSION", 2)
    write([file("a", b"1")], path, form)
    monkeypatch.undo()
    what = f"`{path}` cannot be read here: its manifest has version 2, made by a newer safekept than this one"
    refused(path, ArchiveUnsupported, what)


def test_own_tar_unpacked_to_plain_or_packed_otherwise_is_still_ours(tmp_path):
    import gzip

    write(sample_home(), tmp_path / "a.tar.zst", "tar.zst")
    wanted = read(tmp_path / "a.tar.zst")
    with zstandard.open(tmp_path / "a.tar.zst", "rb") as packed:
        plain = packed.read()
    (tmp_path / "a.tar").write_bytes(plain)
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(plain))
    for name in ("a.tar", "a.tar.gz"):
        assert read(tmp_path / name) == wanted
        with open_archive(str(tmp_path / name)) as archive:
            assert archive.head["id"] == "20261115-060000-abc123"
