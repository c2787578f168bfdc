"""Sealed age files read at any place: right bytes, or a typed error, and never anything in between."""

import base64
import os
import random

import pytest

from safekept.archive.container.handle import open_handle
from safekept.archive.errors import ArchiveDamaged, ArchiveUnsupported
from safekept.archive.sealing.age.file import AgeFile, AgeOutput
from safekept.archive.sealing.age.format import CHUNK, SEALED, BrokenSeal, payload_size
from safekept.archive.sealing.age.keys import AgeIdentity
from safekept.archive.sealing.identities import open_age
from support.archives.seals import opener

ME = AgeIdentity.generate()
SIZES = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 5 * CHUNK + 77]


@pytest.fixture
def identity(tmp_path):
    (tmp_path / "key").write_text(ME.text)
    return opener(tmp_path / "key")


def sealed(path, data, step=10_007):
    output = AgeOutput(str(path), [ME.recipient])
    for start in range(0, len(data), step):
        output.write(data[start : start + step])
    output.complete()
    with_key = output.reopen()
    assert with_key.read(0, len(data)) == data
    with_key.close()
    output.finish(str(path), True)
    return path


def content(path, identity):
    handle = open_handle(str(path))
    try:
        clear = open_age(handle, identity)
        return clear.read(0, clear.size)
    finally:
        handle.close()


@pytest.mark.parametrize("size", SIZES)
def test_what_is_sealed_in_any_steps_comes_back_from_any_place(size, tmp_path, identity):
    data = os.urandom(size)
    path = sealed(tmp_path / "a.age", data)
    assert len(data) < 20 or data[:20] not in path.read_bytes()
    handle = open_handle(str(path))
    try:
        clear = open_age(handle, identity)
        assert clear.size == size
        numbers = random.Random(size)
        for _ in range(60):
            start = numbers.randrange(size + 1)
            length = numbers.choice([1, 17, 4096, CHUNK, CHUNK + 1, 3 * CHUNK, size])
            assert clear.some(start, length) == data[start : start + length]
        assert clear.some(size, 10) == b""
    finally:
        handle.close()


@pytest.mark.parametrize("size", [0, 1, CHUNK, 3 * CHUNK + 5])
def test_a_file_cut_anywhere_gives_nothing_at_all(size, tmp_path, identity):
    path = sealed(tmp_path / "a.age", os.urandom(size))
    whole = path.read_bytes()
    payload = len(whole) - (size + 16 * max(1, -(-size // CHUNK)))
    cuts = {
        0,
        1,
        payload - 17,
        payload - 16,
        payload - 1,
        payload,
        payload + 15,
        payload + 16,
        len(whole) - 1,
    }
    cuts |= {payload + number * SEALED + more for number in range(4) for more in (-1, 0, 1, 16, 17)}
    for cut in sorted(cut for cut in cuts if 0 <= cut < len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(ArchiveDamaged):
            content(path, identity)


def test_a_flipped_bit_anywhere_gives_an_error_and_no_byte_of_its_chunk(tmp_path, identity):
    data = os.urandom(3 * CHUNK + 5)
    path = sealed(tmp_path / "a.age", data)
    whole = path.read_bytes()
    start = len(whole) - len(data) - 4 * 16
    numbers = random.Random(1)
    places = [*range(0, start, 7), start, len(whole) - 1] + [numbers.randrange(len(whole)) for _ in range(60)]
    for place in places:
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << numbers.randrange(8)]) + whole[place + 1 :]
        )
        handle = open_handle(str(path))
        given = []
        with pytest.raises((ArchiveDamaged, ArchiveUnsupported, Exception)) as caught:
            try:
                clear = open_age(handle, identity)
                for offset in range(0, clear.size, CHUNK):
                    given.append(clear.read(offset, min(CHUNK, clear.size - offset)))
            finally:
                handle.close()
        # Whatever was given is right, and what was flipped was not given.
        assert b"".join(given) == data[: sum(map(len, given))]
        assert getattr(caught.value, "code", "") in (
            "archive-damaged",
            "archive-unsupported",
            "identity-needed",
            "identity-does-not-fit",
        ), caught.value


def test_chunks_that_were_swapped_repeated_or_taken_from_another_file_are_refused(tmp_path, identity):
    data = os.urandom(3 * CHUNK)
    path = sealed(tmp_path / "a.age", data)
    whole, other = path.read_bytes(), sealed(tmp_path / "b.age", data).read_bytes()
    start = len(whole) - 3 * SEALED
    one, two, three = (whole[start + n * SEALED : start + (n + 1) * SEALED] for n in range(3))
    for payload in (
        two + one + three,
        one + one + three,
        one + two + two,
        one + three,
        one + two + three * 2,
    ):
        path.write_bytes(whole[:start] + payload)
        with pytest.raises(ArchiveDamaged, match="its seal is broken"):
            content(path, identity)
    path.write_bytes(whole[:start] + other[start:])
    with pytest.raises(ArchiveDamaged):
        content(path, identity)
    path.write_bytes(whole + b"more")
    with pytest.raises(ArchiveDamaged):
        content(path, identity)


def test_no_payload_has_an_impossible_size():
    assert [payload_size(n) for n in (16, 17, SEALED, SEALED + 17)] == [0, 1, CHUNK, CHUNK + 1]
    for impossible in (0, 1, 15, SEALED + 1, SEALED + 16, 2 * SEALED + 16):
        with pytest.raises(BrokenSeal):
            payload_size(impossible)


def test_a_newer_version_of_the_format_is_said_to_be_one(tmp_path, identity):
    path = sealed(tmp_path / "a.age", b"x")
    path.write_bytes(path.read_bytes().replace(b"/v1\n", b"/v9\n", 1))
    with pytest.raises(ArchiveUnsupported, match="newer version of the age format"):
        content(path, identity)


def armored(data, line_break=b"\n"):
    lines = [base64.b64encode(data[start : start + 48]) for start in range(0, len(data), 48)]
    return line_break.join(
        [b"-----BEGIN AGE ENCRYPTED FILE-----", *lines, b"-----END AGE ENCRYPTED FILE-----", b""]
    )


@pytest.mark.parametrize("line_break", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [0, 1, 2, 30, 47, 48, 2 * CHUNK + 1])
def test_armor_is_read_at_any_place(size, line_break, tmp_path, identity):
    data = os.urandom(size)
    path = sealed(tmp_path / "a.age", data)
    path.write_bytes(armored(path.read_bytes(), line_break))
    handle = open_handle(str(path))
    try:
        clear = open_age(handle, identity)
        assert clear.read(0, clear.size) == data
        for start in (size // 2, max(0, size - 1)):
            assert clear.some(start, 100) == data[start : start + 100]
    finally:
        handle.close()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"-----END AGE", b"-----FIN AGE"),
        (b"\n-----END", b"-----END"),
        (b"FILE-----\n", b"FILE-----\n\n"),
        (b"FILE-----\n", b"FILE----- \n"),
    ],
)
def test_armor_written_in_any_other_way_is_refused(old, new, tmp_path, identity):
    path = sealed(tmp_path / "a.age", os.urandom(100))
    text = armored(path.read_bytes())
    assert old in text
    path.write_bytes(text.replace(old, new, 1))
    with pytest.raises(ArchiveDamaged, match=r"armor|header"):
        content(path, identity)
    lines = text.split(b"\n")
    path.write_bytes(b"\n".join([lines[0], lines[1][:-4], *lines[2:]]))
    with pytest.raises(ArchiveDamaged):
        content(path, identity)
    path.write_bytes(text + b"trailing")
    with pytest.raises(ArchiveDamaged):
        content(path, identity)


def test_a_written_header_that_the_disk_gives_back_changed_is_not_proven(tmp_path):
    output = AgeOutput(str(tmp_path / "a.age"), [ME.recipient])
    output.write(b"content")
    output.complete()
    (name,) = [name for name in os.listdir(tmp_path) if name.startswith(".safekept-tmp-")]
    with open(tmp_path / name, "r+b") as file:
        file.seek(40)
        byte = file.read(1)
        file.seek(40)
        file.write(b"A" if byte != b"A" else b"B")
    with pytest.raises(ArchiveDamaged, match="header of its seal is not the one that was written"):
        output.reopen()
    output.discard()
    assert os.listdir(tmp_path) == []


def test_sealing_to_nobody_in_particular_never_gives_two_equal_files(tmp_path):
    one, two = sealed(tmp_path / "a", b"same"), sealed(tmp_path / "b", b"same")
    assert one.read_bytes() != two.read_bytes()
    handle = open_handle(str(one))
    assert len(AgeFile(handle).header.stanzas) == 1
    handle.close()
