"""Packs, index and compression: what goes in comes out, and what does not fit is refused."""

from __future__ import annotations

import os
import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from safekept.vault.format.blobs import BlobKind, PackEntry, blob_id
from safekept.vault.format.compression import (
    BadCompression,
    compress_many,
    decompress,
    decompress_many,
    pack_unpacked,
    unpack_unpacked,
)
from safekept.vault.format.crypto import Key
from safekept.vault.format.pack import (
    BadPack,
    PackBuilder,
    decode_header,
    encode_header,
    pack_size,
    read_header,
)
from safekept.vault.repo.index import BadIndex, Index, decode_index, encode_index
from safekept.vault.repo.index_cache import IndexCache

KEY = Key.generate()


def build(kind, blobs, compressed=True):
    builder = PackBuilder(kind)
    for blob in blobs:
        builder.append(blob_id(blob), KEY.seal(blob), len(blob) if compressed else 0)
    return builder, builder.finish(KEY)


@given(
    st.lists(st.binary(min_size=1, max_size=100), min_size=1, max_size=20),
    st.sampled_from(BlobKind),
    st.booleans(),
)
def test_a_pack_names_all_its_blobs(blobs, kind, compressed):
    builder, _ = build(kind, blobs, compressed)
    data = bytes(builder.data)
    assert read_header(KEY, data, len(data)) == builder.entries
    assert pack_size(builder.entries) == len(data)
    for entry, blob in zip(builder.entries, blobs, strict=True):
        assert KEY.open(data[entry.offset : entry.offset + entry.length]) == blob
        assert (entry.kind, entry.id, entry.plain) == (kind, blob_id(blob), len(blob) if compressed else 0)


def test_every_cut_and_every_flip_in_a_header_is_noticed():
    builder, _ = build(BlobKind.DATA, [b"one", b"two"])
    data = bytes(builder.data)
    for length in range(len(data)):
        with pytest.raises(BadPack):
            read_header(KEY, data[:length], length)
    span = len(data) - builder.entries[-1].offset - builder.entries[-1].length
    for bit in range((len(data) - span) * 8, len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadPack):
            read_header(KEY, changed, len(changed))
    with pytest.raises(BadPack):
        read_header(KEY, b"x" + data, len(data) + 1)


def test_headers_have_the_layout_of_the_format():
    plain = PackEntry(BlobKind.TREE, b"\x07" * 32, 0, 0x01020304, 0)
    packed = PackEntry(BlobKind.DATA, b"\x08" * 32, 0x01020304, 5, 6)
    text = encode_header([plain, packed])
    assert text == b"\x01\x04\x03\x02\x01" + b"\x07" * 32 + b"\x02\x05\0\0\0\x06\0\0\0" + b"\x08" * 32
    assert decode_header(text) == [plain, packed]
    for bad in (b"\x04" + text[1:], text[:-1], text + b"\x00"):
        with pytest.raises(BadPack):
            decode_header(bad)


entries_of_packs = st.lists(
    st.tuples(
        st.binary(min_size=32, max_size=32),
        st.lists(
            st.builds(
                PackEntry,
                st.sampled_from(BlobKind),
                st.binary(min_size=32, max_size=32) | st.integers(0, 3).map(lambda n: bytes([n]) * 32),
                st.integers(0, 2**32 - 1),
                st.integers(32, 2**32 - 1),
                st.integers(0, 2**32 - 1),
            ),
            max_size=8,
            unique_by=lambda entry: entry.offset,
        ),
    ),
    max_size=6,
    unique_by=lambda pack: pack[0],
)


@given(entries_of_packs, st.integers(0, 6))
def test_the_index_finds_every_blob_in_all_its_places(packs, added):
    assert decode_index(encode_index(packs)) == [(pack, list(entries)) for pack, entries in packs]
    index = Index.build(packs[added:])
    for pack, entries in packs[:added]:
        index.add(pack, entries)
    expected = {}
    for pack, entries in packs:
        for entry in entries:
            place = (pack, entry.offset, entry.length, entry.plain)
            expected.setdefault((entry.kind, entry.id), set()).add(place)
    for (kind, blob), places in expected.items():
        assert index.has(kind, blob)
        assert set(index.lookup_all(kind, blob)) == places
        assert index.lookup(kind, blob) in places
    for kind in BlobKind:
        for blob in (bytes([9]) * 32, *(entry.id for _, entries in packs for entry in entries)):
            assert index.has(kind, blob) == ((kind, blob) in expected)
    assert len(index) == sum(len(entries) for _, entries in packs)
    by_pack = {pack: sorted(entries) for pack, entries in index.by_pack()}
    assert by_pack == {pack: sorted(entries) for pack, entries in packs}


def test_an_id_across_two_records_is_not_taken_for_one():
    source = random.Random(5)
    first, second = sorted(source.randbytes(32) for _ in range(2))
    second = first[:2] + second[2:]  # the same bucket
    index = Index.build([(bytes(32), [PackEntry(BlobKind.DATA, one, 0, 40, 0) for one in (first, second)])])
    records = index.records()[1]
    for at in range(1, len(records) - 32):
        if at % 48:
            assert not index.has(BlobKind.DATA, records[at : at + 32])


def test_a_doubted_pack_holds_nothing_that_counts_and_can_still_be_read():
    entries = [PackEntry(BlobKind.DATA, bytes([n]) * 32, n * 40, 40, 0) for n in range(3)]
    index = Index.build([(b"p" * 32, entries), (b"q" * 32, entries[:1])])
    index.doubt([b"p" * 32, b"not in it".ljust(32)])
    assert index.doubted == 1
    assert [index.has(BlobKind.DATA, entry.id) for entry in entries] == [True, False, False]
    assert not index.has(BlobKind.TREE, entries[0].id)
    assert len(index.lookup_all(BlobKind.DATA, entries[0].id)) == 2
    index.add(b"r" * 32, entries[1:2])
    assert [index.has(BlobKind.DATA, entry.id) for entry in entries] == [True, True, False]
    index.doubt([])
    assert all(index.has(BlobKind.DATA, entry.id) for entry in entries)


def test_the_size_of_a_pack_that_two_index_files_disagree_on_is_not_known():
    entries = [PackEntry(BlobKind.DATA, bytes([n]) * 32, n * 40, 40, n) for n in range(3)]
    index = Index.build([(b"p" * 32, entries), (b"q" * 32, entries), (b"q" * 32, entries[:2])])
    assert index.sizes == [pack_size(entries), 0]


def test_the_same_pack_in_two_index_files_counts_once():
    entries = [PackEntry(BlobKind.DATA, bytes([n]) * 32, n * 40, 40, 0) for n in range(5)]
    index = Index.build([(b"p" * 32, entries[:3]), (b"p" * 32, entries)])
    assert len(index) == 5
    assert [entry for _, found in index.by_pack() for entry in found] == entries


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{}", b"[]", b'{"packs":[{}]}', b'{"packs":[{"id":"00","blobs":[]}]}',
        b'{"packs":[{"id":"' + b"00" * 32
        + b'","blobs":[{"id":"00","type":"data","offset":0,"length":50}]}]}',
        b'{"packs":[{"id":"' + b"00" * 32 + b'","blobs":[{"id":"' + b"00" * 32
        + b'","type":"data","offset":-1,"length":50}]}]}',
        b'{"packs":[{"id":"' + b"00" * 32 + b'","blobs":[{"id":"' + b"00" * 32
        + b'","type":"data","offset":0,"length":4294967296}]}]}',
        b'{"packs":[{"id":"' + b"00" * 32 + b'","blobs":[{"id":"' + b"00" * 32
        + b'","type":"cat","offset":0,"length":50}]}]}',
    ],
)  # fmt: skip
def test_what_is_no_index_is_refused(text):
    with pytest.raises(BadIndex):
        decode_index(text)


@pytest.mark.needs("modes", "it looks at modes")
def test_the_cache_gives_the_same_index_or_none(tmp_path):
    packs = [
        (os.urandom(32), [PackEntry(BlobKind.DATA, os.urandom(32), n * 40, 40, 9) for n in range(50)])
        for _ in range(4)
    ]
    index, names = Index.build(packs), {os.urandom(32).hex() for _ in range(3)}
    cache = IndexCache(str(tmp_path), KEY, "ab" * 32)
    assert cache.load(names) is None
    cache.save(index, names)
    loaded, covered = cache.load(names | {"ff" * 32})
    assert covered == names
    assert loaded.records() == index.records()
    assert loaded.sizes == index.sizes == [pack_size(entries) for _, entries in packs]
    assert os.stat(cache.path).st_mode & 0o777 == 0o600
    # An index file that it was made of is gone: a pack of it may be too.
    assert cache.load(set(sorted(names)[1:])) is None
    assert IndexCache(str(tmp_path), Key.generate(), "ab" * 32).load(names) is None
    with open(cache.path, "rb") as file:
        whole = file.read()
    for at in [*range(0, 90), *random.Random(3).sample(range(len(whole)), 200)]:
        with open(cache.path, "r+b") as file:
            file.seek(at)
            file.write(bytes([whole[at] ^ 4]))
        assert cache.load(names) is None, at
        with open(cache.path, "r+b") as file:
            file.seek(at)
            file.write(whole[at : at + 1])
    with open(cache.path, "r+b") as file:
        file.truncate(len(whole) - 1)
    assert cache.load(names) is None


@given(st.lists(st.binary(min_size=1, max_size=500), min_size=1, max_size=10))
def test_blobs_survive_compression(blobs):
    frames = [bytes(frame) for frame in compress_many(blobs, 3)]
    sizes = [len(blob) for blob in blobs]
    assert [bytes(one) for one in decompress_many(frames, sizes)] == blobs
    assert all(
        zstandard.get_frame_parameters(frame).content_size == size
        for frame, size in zip(frames, sizes, strict=True)
    )
    for wrong in ([sizes[0] + 1, *sizes[1:]], [sizes[0] - 1, *sizes[1:]]):
        with pytest.raises(BadCompression):
            decompress_many(frames, wrong)


def test_frames_without_size_several_in_a_row_and_checksums_are_read():
    stream = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True)
    parts = [os.urandom(300_000), b"b" * 1000, b"c"]
    frames = []
    for part in parts:
        maker = stream.compressobj()
        frames.append(maker.compress(part) + maker.flush())
    assert decompress(b"".join(frames), 1 << 20) == b"".join(parts)
    assert [bytes(one) for one in decompress_many(frames, [len(part) for part in parts])] == parts
    assert unpack_unpacked(b"\x02" + frames[1] + frames[2]) == parts[1] + parts[2]
    skippable = b"\x50\x2a\x4d\x18\x04\x00\x00\x00skip"
    assert decompress(skippable + frames[2], 10) == b"c"


def test_a_bomb_is_refused():
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(50 << 20))
    with pytest.raises(BadCompression, match="more than"):
        decompress(bomb, 1000)


@pytest.mark.parametrize("text", [b"", b"\x02", b"\x01x", b"x", b"\x02\x28\xb5\x2f\xfd"])
def test_what_is_no_unpacked_file_is_refused(text):
    with pytest.raises(BadCompression):
        unpack_unpacked(text)


def test_unpacked_files_may_be_plain_json():
    assert unpack_unpacked(b'{"a":1}') == b'{"a":1}'
    assert unpack_unpacked(b"[]") == b"[]"
    assert unpack_unpacked(pack_unpacked(b'{"a":1}')) == b'{"a":1}'
