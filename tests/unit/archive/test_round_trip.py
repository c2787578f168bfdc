"""What goes into an archive comes out of it: every byte, mode, nanosecond, link and name."""

import os
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from safekept.archive import open_archive
from safekept.archive.errors import ArchiveDamaged
from safekept.core.entries import CHUNK, Entry, Kind
from support.archives.sources import FORMS, HEAD, WHEN, directory, facts, file, link, read, sample_home, write

# Any byte that a Linux name may have, and the shapes that trip archives up.
COMPONENTS = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.text(min_size=1, max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [
            b"a\nb",
            "\U0001f4be é".encode(),
            b"-rf",
            b"c:x",
            b"a\\..\\b",
            b" ",
            b"x" * 250,
            b"\xff\xfe",
            b"%s",
            b"'\"",
        ]
    ),
).filter(
    lambda raw: (
        raw not in (b".", b"..", b".safekept") and b"/" not in raw and b"\0" not in raw and len(raw) <= 255
    )
)
TIMES = st.one_of(
    st.integers(-(2**31) * 10**9, 2**33 * 10**9),
    st.sampled_from([0, 1, -1, WHEN, 2**40 * 10**9 + 1]),
    st.sampled_from([1, 315_532_799, 315_532_800, 4_354_819_200]).map(lambda seconds: seconds * 10**9),
)
BODIES = st.one_of(
    st.binary(max_size=400),
    st.integers(0, 3).map(lambda number: bytes(number * 700_001)),  # holes, one piece and several
    st.integers(1, 4).map(lambda number: (b"agent %d " % number) * 200_000),
)


@st.composite
def trees(draw):
    entries: dict[str, Entry] = {}
    parents = [""]
    for raw in draw(st.lists(COMPONENTS, max_size=8, unique=True)):
        parent = draw(st.sampled_from(parents))
        path = os.fsdecode(parent.encode("utf-8", "surrogateescape") + raw)
        mtime = draw(TIMES)
        kind = draw(st.sampled_from(["file", "file", "directory", "link"]))
        if kind == "directory":
            entries[path] = directory(
                path, draw(st.sampled_from([0o755, 0o700, 0o1777, 0o2775, 0o555])), mtime
            )
            if len(os.fsencode(path)) < 800:
                parents.append(path + "/")
        elif kind == "link":
            target = draw(
                st.one_of(COMPONENTS, st.sampled_from([b"../../etc/passwd", b"/abs", b"a/" * 90 + b"b"]))
            )
            entries[path] = link(path, os.fsdecode(target), mtime)
        else:
            entries[path] = file(
                path, draw(BODIES), draw(st.sampled_from([0o644, 0o600, 0o755, 0o000, 0o444])), mtime
            )
    return list(entries.values())


@pytest.mark.parametrize("form", FORMS)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(entries=trees())
def test_any_home_comes_back_equal(form, entries, tmp_path):
    path = tmp_path / f"a.{form}"
    written = write(entries, path, form)
    assert written.complete
    assert read(path) == facts(entries)
    path.unlink()


@pytest.mark.parametrize("form", FORMS)
def test_parents_come_before_their_children(form, tmp_path):
    path = tmp_path / "a"
    write([file("z/y/x", b"1"), directory("z/y"), directory("z"), link("z/y/l", "x")], path, form)
    with open_archive(str(path)) as archive:
        order = [entry.path for entry in archive]
    assert order.index("z") < order.index("z/y") < order.index("z/y/x")


@pytest.mark.parametrize("form", FORMS)
def test_manifest_head_and_census_come_back(form, tmp_path):
    path = tmp_path / "a"
    written = write(sample_home(), path, form)
    with open_archive(str(path)) as archive:
        head = archive.head
        assert archive.form == form
        assert archive.ordered is (form != "zip")
    assert head is not None
    assert {key: head[key] for key in HEAD} == HEAD
    assert (head["format"], head["version"], head["complete"]) == ("safekept-archive", 1, True)
    assert head["census"] == {"sessions": 3}
    assert head["counts"] == {
        "files": written.files,
        "directories": written.directories,
        "links": written.links,
        "bytes": written.bytes,
    }
    assert (written.files, written.directories, written.links) == (10, 3, 2)
    assert written.stored_bytes == path.stat().st_size


@pytest.mark.parametrize("form", FORMS)
def test_archive_is_private_from_the_first_byte(form, tmp_path):
    seen = []

    def look(event):
        seen.extend(stat.S_IMODE(item.stat().st_mode) for item in tmp_path.iterdir())

    old = os.umask(0)
    try:
        write(sample_home(), tmp_path / "a", form, listener=look)
    finally:
        os.umask(old)
    assert set(seen) == {0o600}
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


@pytest.mark.parametrize("form", FORMS)
def test_special_bits_never_come_back_on_files(form, tmp_path):
    path = tmp_path / "a"
    write([file("tool", b"x", 0o6755), directory("shared", 0o2775)], path, form)
    found = read(path)
    assert found["tool"][1] == 0o755
    assert found["shared"][1] == 0o2775


@pytest.mark.parametrize("form", FORMS)
def test_entries_can_be_opened_out_of_order(form, tmp_path):
    path = tmp_path / "a"
    entries = sample_home()
    write(entries, path, form)
    with open_archive(str(path)) as archive:
        backwards = [entry for entry in reversed(archive.entries) if entry.kind is Kind.FILE]
        assert facts(backwards) == facts(entry for entry in entries if entry.kind is Kind.FILE)


def test_tar_content_that_was_left_alone_half_way_stops_nothing(tmp_path):
    path = tmp_path / "a"
    entries = sample_home()
    write(entries, path, "tar.zst")
    with open_archive(str(path)) as archive:
        files = {entry.path: entry for entry in archive if entry.kind is Kind.FILE}
        unfinished = files["state.db"].open().chunks()
        next(unfinished)
        assert facts([files["sessions.jsonl"]]) == facts(e for e in entries if e.path == "sessions.jsonl")
        with pytest.raises(RuntimeError, match="another entry was opened"):
            next(unfinished)
        assert facts(archive) == facts(entries)


def test_zip_entries_can_be_read_from_many_threads(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    path = tmp_path / "a.zip"
    entries = sample_home()
    write(entries, path)
    wanted = facts(entry for entry in entries if entry.kind is Kind.FILE)
    with open_archive(str(path)) as archive, ThreadPoolExecutor(4) as pool:
        files = [entry for entry in archive if entry.kind is Kind.FILE]
        for found in pool.map(lambda _: facts(files), range(4)):
            assert found == wanted


@pytest.mark.parametrize("form", FORMS)
def test_under_takes_a_wrapper_off_and_says_what_lay_outside(form, tmp_path):
    path = tmp_path / "a"
    write([directory(".hermes"), file(".hermes/config.yaml", b"x"), file("stray.txt", b"y")], path, form)
    with open_archive(str(path)) as archive:
        source = archive.under(".hermes/")
        assert facts(source) == {"config.yaml": ("file", 0o644, WHEN, "", b"x")}
        (remark,) = source.remarks
        assert (remark.path, remark.outcome, remark.files, remark.bytes) == ("stray.txt", "excluded", 1, 1)


@pytest.mark.parametrize("form", FORMS)
def test_what_lies_beside_the_home_in_an_archive_is_one_remark(form, tmp_path):
    path = tmp_path / "a"
    old = [directory("user/hermes-old")]
    old += [file(f"user/hermes-old/{n:03}", b"xx") for n in range(300)]
    stray = [file(f"stray-{n}", b"y") for n in range(6)]
    home = [directory("user"), directory("user/.hermes"), file("user/.hermes/config.yaml", b"x")]
    write([*home, *old, directory("empty"), *stray], path, form)
    with open_archive(str(path)) as archive:
        source = archive.under("user/.hermes")
        assert list(facts(source)) == ["config.yaml"]
        (remark,) = source.remarks
        assert (remark.outcome, remark.files, remark.bytes) == ("excluded", 306, 606)
        assert "outside `user/.hermes`" in remark.reason
        assert "`empty`" in remark.reason
        assert "and 3 more" in remark.reason
        assert remark.reason.count("`") == 12  # the home and five names


@pytest.mark.parametrize("form", FORMS)
def test_an_archive_with_nothing_beside_the_home_says_nothing(form, tmp_path):
    path = tmp_path / "a"
    write([directory("a"), directory("a/b"), file("a/b/config.yaml", b"x")], path, form)
    with open_archive(str(path)) as archive:
        assert archive.under("a/b").remarks == []


@pytest.mark.parametrize("form", FORMS)
def test_zeros_and_holes_come_back_as_zeros(form, tmp_path):
    zeros, noise = bytes(CHUNK), os.urandom(CHUNK)
    contents = {
        "zeros": zeros * 11,
        "odd": zeros * 9 + b"\0" * 17,
        "front": noise + zeros * 10,
        "middle": zeros * 5 + noise[:99] + zeros * 5,
        "end": zeros * 10 + noise,
        "ones": b"\1" * (10 * CHUNK),
        "nearly": (zeros[:-1] + b"\1") * 9,
    }
    write([file(name, data) for name, data in contents.items()], tmp_path / "a", form)
    assert {name: found[-1] for name, found in read(tmp_path / "a").items()} == contents


@pytest.mark.parametrize("form", FORMS)
def test_a_flipped_bit_among_equal_pieces_is_found(form, tmp_path):
    path = tmp_path / "a"
    write([file("zeros", bytes(40 * CHUNK))], path, form)
    data = bytearray(path.read_bytes())
    for at in range(200, 1300, 23):
        damaged = data.copy()
        damaged[at] ^= 0x01
        path.write_bytes(damaged)
        with pytest.raises(ArchiveDamaged):
            read(path)


@pytest.mark.parametrize("form", FORMS)
def test_one_archive_can_be_the_source_of_another(form, tmp_path):
    from safekept.archive import write_archive

    entries = sample_home()
    write(entries, tmp_path / "first", "tar.zst")
    with open_archive(str(tmp_path / "first")) as first:
        write_archive(first, str(tmp_path / "second"), form=form, head=HEAD, closing=dict)
    assert read(tmp_path / "second") == facts(entries)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 8 * CHUNK + 3])
@pytest.mark.parametrize("step", [CHUNK, 65_537])
def test_content_of_any_size_in_any_chunks(form, size, step, tmp_path):
    from support.archives.sources import UnevenContent

    data = os.urandom(size)
    entry = Entry(
        "state.db", Kind.FILE, 0o600, WHEN, size, database=True, open=lambda: UnevenContent(data, step)
    )
    write([entry], tmp_path / "a", form)
    assert read(tmp_path / "a")["state.db"][4] == data


@pytest.mark.parametrize("form", FORMS)
def test_home_without_entries(form, tmp_path):
    write([], tmp_path / "a", form)
    assert read(tmp_path / "a") == {}
