"""Trees are Go's bytes, names are Go's quoting, and whatever others wrote is read."""

from __future__ import annotations

import base64
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safekept.vault.format.go_text import format_time, json_text, parse_time, quote, unquote
from safekept.vault.format.tree import BadTree, Node, decode_tree, encode_tree, go_mode, unix_mode

ANY_NAME = st.binary(min_size=1, max_size=40).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
NODE_NAME = ANY_NAME.filter(lambda name: name not in (".", "..") and "/" not in name and "\x00" not in name)


@pytest.mark.parametrize(
    ("raw", "quoted"),
    [
        (b"plain.txt", "plain.txt"),
        (b'say "hi"', r"say \"hi\""),
        (b"back\\slash", r"back\\slash"),
        (b"\a\b\f\n\r\t\v", r"\a\b\f\n\r\t\v"),
        (b"\x01\x1f\x7f", r"\x01\x1f\x7f"),
        (b"\xff\xfe", r"\xff\xfe"),
        (b"ok\xc3\xa4\xc3", "okä\\xc3"),
        ("\u00a0nbsp".encode(), r"\u00a0nbsp"),
        ("\u2028".encode(), r"\u2028"),
        ("\ufeff".encode(), r"\ufeff"),
        ("\ufffd".encode(), "\ufffd"),
        ("\U000e0001".encode(), r"\U000e0001"),
        ("😀 ok".encode(), "😀 ok"),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
        (b"it's", "it's"),
    ],
)
def test_names_are_quoted_as_go_quotes_them(raw, quoted):
    name = raw.decode("utf-8", "surrogateescape")
    assert quote(name) == quoted
    assert unquote(quoted) == name


@given(ANY_NAME)
def test_every_name_of_any_bytes_survives_quoting(name):
    quoted = quote(name)
    assert unquote(quoted) == name
    quoted.encode()  # what goes into JSON is proper UTF-8
    assert quoted.isprintable() or not quoted


@pytest.mark.parametrize(
    "text", ["a\\", "\\q", "\\x1", "\\u12", "\\ud800", '"', "a\nb", "\\400", "\\U00110000"]
)
def test_what_go_could_not_have_written_is_refused(text):
    with pytest.raises(ValueError):
        unquote(text)


def test_octal_escapes_are_read_too():
    assert unquote(r"\101\377") == b"A\xff".decode("utf-8", "surrogateescape")


def test_json_escapes_what_go_escapes():
    assert json_text("<a> & \u2028\u2029 ä \x01\x7f\n") == (
        '"\\u003ca\\u003e \\u0026 \\u2028\\u2029 ä \\u0001\x7f\\n"'
    )


def nodes():
    numbers = st.integers(0, 2**32 - 1)
    times = st.integers(-(10**18), 4 * 10**18)
    files = st.builds(
        Node,
        NODE_NAME,
        st.just("file"),
        st.integers(0, 0o7777),
        times,
        times,
        times,
        numbers,
        numbers,
        st.text(max_size=5, alphabet=st.characters(codec="utf-8")),
        st.just("wheel"),
        st.integers(0, 2**63),
        st.integers(0, 2**63),
        st.integers(0, 2**40),
        st.integers(0, 9),
        content=st.lists(st.binary(min_size=32, max_size=32), max_size=4).map(b"".join),
    )
    links = st.builds(Node, NODE_NAME, st.just("symlink"), st.just(0o777), times, target=ANY_NAME)
    directories = st.builds(
        Node,
        NODE_NAME,
        st.just("dir"),
        st.integers(0, 0o7777),
        times,
        subtree=st.binary(min_size=32, max_size=32),
    )
    return st.lists(st.one_of(files, links, directories), max_size=6, unique_by=lambda node: node.name)


@given(nodes())
def test_a_tree_survives_and_is_sorted_by_raw_bytes(made):
    text = encode_tree(made)
    back = decode_tree(text).nodes
    assert [os.fsencode(node.name) for node in back] == sorted(os.fsencode(node.name) for node in made)
    assert encode_tree(back) == text
    by_name = {node.name: node for node in made}
    for node in back:
        before = by_name[node.name]
        assert (node.type, node.mode, node.mtime_ns) == (before.type, before.mode, before.mtime_ns)
        assert (node.target, node.content, node.subtree) == (before.target, before.content, before.subtree)
        assert (node.size, node.links, node.user, node.inode) == (
            before.size,
            before.links,
            before.user,
            before.inode,
        )


def test_the_bytes_of_a_tree_are_exactly_these(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    import time

    time.tzset()
    made = [
        Node("b", "dir", 0o755, 1_500_000_000, subtree=bytes(32)),
        Node(
            "a", "file", 0o644, 1_500_000_000_000_000_000, uid=0, gid=5, size=3, content=b"\x01" * 64, links=1
        ),
        Node("c", "symlink", 0o777, 0, target="a<b", links=1),
        Node("d", "file", 0, 10**18, content=b""),
    ]
    times = '"mtime":"{0}","atime":"{0}","ctime":"{0}"'
    one = "01" * 32
    assert encode_tree(made).decode() == (
        '{"nodes":[{"name":"a","type":"file","mode":420,' + times.format("2017-07-14T02:40:00Z")
        + f',"uid":0,"gid":5,"size":3,"links":1,"content":["{one}","{one}"]}},'
        '{"name":"b","type":"dir","mode":2147484141,' + times.format("1970-01-01T00:00:01.5Z")
        + ',"uid":0,"gid":0,"content":null,"subtree":"' + "00" * 32 + '"},'
        '{"name":"c","type":"symlink","mode":134218239,' + times.format("1970-01-01T00:00:00Z")
        + ',"uid":0,"gid":0,"links":1,"linktarget":"a\\u003cb","content":null},'
        '{"name":"d","type":"file",' + times.format("2001-09-09T01:46:40Z")
        + ',"uid":0,"gid":0,"content":[]}]}\n'
    )  # fmt: skip
    assert encode_tree([]) == b'{"nodes":[]}\n'


def test_a_target_that_is_not_utf8_keeps_its_bytes():
    target = b"caf\xe9".decode("utf-8", "surrogateescape")
    text = encode_tree([Node("l", "symlink", 0o777, 0, target=target)])
    fields = json.loads(text)["nodes"][0]
    assert fields["linktarget"] == "caf\ufffd"
    assert base64.b64decode(fields["linktarget_raw"]) == b"caf\xe9"
    assert decode_tree(text).nodes[0].target == target


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_names_that_no_directory_holds_are_neither_written_nor_read(name):
    with pytest.raises(ValueError, match="not a node"):
        encode_tree([Node(name, "file", content=b"")])
    with pytest.raises(BadTree):
        decode_tree(json.dumps({"nodes": [{"name": name, "type": "file"}]}).encode())


def test_two_nodes_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two nodes"):
        encode_tree([Node("a", "file", content=b""), Node("a", "dir", subtree=bytes(32))])


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{}", b"[]", b"null", b'{"nodes":[{}]}', b'{"nodes":[{"name":"d","type":"dir"}]}',
        b'{"nodes":[{"name":"f","type":"file","content":["00"]}]}',
        b'{"nodes":[{"name":"f","type":"file","mtime":"yesterday"}]}',
        b'{"nodes":[{"name":"\\\\q","type":"file"}]}', b'{"nodes":[3]}',
        b'{"nodes":[{"name":"\\ud800","type":"file"}]}',
    ],
)  # fmt: skip
def test_what_is_no_tree_is_a_bad_tree(text):
    with pytest.raises(BadTree):
        decode_tree(text)


def test_the_habits_of_rustic_are_read():
    text = (
        b' {"extra":1, "nodes": [ {"type":"file","name":"x","mtime":"2024-01-02T03:04:05.5+02:00","size":1,'
    )
    text += b'"content":["' + b"ab" * 32 + b'"],"unknown":{}} ] }'
    (node,) = decode_tree(text).nodes
    assert (node.mode, node.uid, node.mtime_ns) == (0, 0, 1704157445_500_000_000)
    assert decode_tree(b'{"nodes":null}').nodes == []


@given(st.integers(0, 0o7777), st.sampled_from(["file", "dir", "symlink"]))
def test_modes_survive_go(mode, kind):
    assert unix_mode(go_mode(kind, mode)) == mode


@given(st.integers(-(2**62), 2**63 - 1), st.integers(-14 * 60, 14 * 60).map(lambda minutes: minutes * 60))
def test_times_survive_in_any_offset(nanoseconds, offset):
    assert parse_time(format_time(nanoseconds, offset)) == (nanoseconds, offset)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"])
def test_times_have_the_local_offset_of_their_moment(monkeypatch, zone):
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for stamp in (1_700_000_000_000_000_001, 1_720_000_000_120_000_000, -5_000_000_000):
            text = format_time(stamp)
            assert parse_time(text)[0] == stamp
            assert parse_time(text)[1] == time.localtime(stamp // 10**9).tm_gmtoff
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("stamp", [2**80, -(2**80), 10**30])
def test_impossible_times_become_possible_ones(stamp):
    parse_time(format_time(stamp))
