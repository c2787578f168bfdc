"""Archives made to hurt: small files that claim, nest, repeat or lie. Each is refused in little memory.

Nothing lands outside the target, and what was there before is as it was.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import tarfile
import zipfile

import pytest

from safekept.archive import open_archive
from safekept.archive.container.limits import NO_LIMITS, ReadLimits
from safekept.archive.errors import ArchiveTooLarge
from safekept.archive.writing import write_archive
from safekept.core.entries import BytesContent, Entry, Kind
from safekept.core.next_step import NextStep
from support.archives import bad_archives as bad
from support.commands.error_texts import error_code
from support.home.entry_list import EntryList

#: What marks a zip and its manifest as ours: anybody can write it.
OWN_COMMENT, OWN_EXTRA = b"safekept-archive 1", b"\x48\x66\x08\x00safekept"


def pax(path, **headers):
    """A tar whose last member has these extended headers."""
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, data in bad.GOOD.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        info = tarfile.TarInfo("skills/a.md")
        info.pax_headers = headers
        archive.addfile(info)
    return path


def long_name(path, name):
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as archive:
        for good, data in bad.GOOD.items():
            info = tarfile.TarInfo(good)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        archive.addfile(tarfile.TarInfo(name))
    return path


def long_link(path, target):
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as archive:
        for good, data in bad.GOOD.items():
            info = tarfile.TarInfo(good)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for number in range(200):
            archive.addfile(bad.link(f"skills/l{number}", target))
    return path


def many_members(path, count):
    """The same directory over and over: a thousandth of its size when packed."""
    block = bad.directory("skills").tobuf(tarfile.USTAR_FORMAT)
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(count // 1000):
            file.write(block * 1000)
        file.write(bytes(1024))
    return path


def many_holes(path, count):
    """Sparse members with endless lists of holes, which pack to next to nothing."""
    body = f"{count}\n".encode() + b"".join(b"%d\n0\n" % n for n in range(count))
    body += bytes(-len(body) % 512)
    headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "skills/a.bin",
        "GNU.sparse.realsize": str(count),
    }
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for good, data in bad.GOOD.items():
            info = tarfile.TarInfo(good)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for number in range(6):
            info = tarfile.TarInfo(f"skills/{number}.bin")
            info.size = len(body)
            info.pax_headers = {**headers, "GNU.sparse.name": f"skills/{number}.bin"}
            archive.addfile(info, io.BytesIO(body))
    return path


def ours(path, run, home):
    """An archive that safekept itself made."""
    done = run("backup", "--home", home, "-o", path)
    assert done.code in (0, 3), done
    return path


def forged(path, *, head=None, entries=None, extra=(), files=None):
    """A zip that says that it is ours, with whatever manifest."""
    files = bad.GOOD if files is None else files
    lines = entries
    if lines is None:
        lines = b"".join(
            json.dumps(
                {
                    "path": name,
                    "kind": "file",
                    "mode": "0600",
                    "mtime_ns": 1_700_000_000_000_000_000,
                    "size": len(data),
                    "sha256": hashlib.sha256(data).hexdigest(),
                }
            ).encode()
            + b"\n"
            for name, data in files.items()
        )
    listing = {"size": len(lines), "sha256": hashlib.sha256(lines).hexdigest()}
    if head is None:
        head = json.dumps(
            {
                "format": "safekept-archive",
                "version": 1,
                "layout": "hermes",
                "complete": True,
                "damaged": [],
                "lost": [],
                "remarks": [],
                "entries": {"member": ".safekept/entries.jsonl", **listing},
            }
        ).encode()
    elif callable(head):
        head = head(listing)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in [*files.items(), *extra]:
            archive.writestr(name, data)
        archive.writestr(".safekept/entries.jsonl", lines)
        info = zipfile.ZipInfo(".safekept/manifest.json", (2026, 1, 2, 3, 4, 6))
        info.compress_type = zipfile.ZIP_DEFLATED
        info.extra = OWN_EXTRA
        archive.writestr(info, head)
        archive.comment = OWN_COMMENT
    return path


HEAD_FRONT = b'{"format":"safekept-archive","version":1,"layout":"hermes","complete":true,"x":'


def filled_head(body):
    return lambda listing: (
        HEAD_FRONT + body + b',"entries":' + json.dumps({"member": "x", **listing}).encode() + b"}"
    )


def line(**fields):
    data = bad.GOOD["SOUL.md"]
    base = {
        "path": "SOUL.md",
        "kind": "file",
        "mode": "0600",
        "mtime_ns": 0,
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    return json.dumps({**base, **fields}).encode() + b"\n"


SOUL = {"SOUL.md": bad.GOOD["SOUL.md"]}
PARTS = "/".join(["a"] * 100_000)
#: name -> (maker, the codes that may be the answer)
CASES = {
    "a name of 100,000 parts": (lambda path: long_name(path, PARTS), {"archive-unsafe"}),
    "a name of 100,000 parts in a zip": (
        lambda path: bad.good_zip(path, ("/".join(["a"] * 30_000), b"x")),
        {"archive-unsafe"},
    ),
    "a name of 5,000 bytes": (lambda path: long_name(path, "skills/" + "a" * 5000), {"archive-unsafe"}),
    "256 parts": (lambda path: long_name(path, "/".join(["a"] * 256)), {"archive-unsafe"}),
    "a part of 300 bytes": (lambda path: long_name(path, "skills/" + "a" * 300), {"archive-unsafe"}),
    "links of a megabyte": (
        lambda path: long_link(path, "a/" * 500_000),
        {"archive-unsafe", "archive-damaged"},
    ),
    "a link of 5,000 bytes in a zip": (
        lambda path: bad.good_zip(path, ("l", b"a" * 5000), modes={"l": 0o120777}),
        {"archive-unsafe", "archive-damaged"},
    ),
    "a million members in a megabyte": (lambda path: many_members(path, 1_000_000), {"archive-too-large"}),
    "six million holes": (lambda path: many_holes(path, 1_000_000), {"archive-damaged", "archive-too-large"}),
    "a time after the end": (lambda path: pax(path, mtime="9" * 30), {"archive-damaged"}),
    "a time before the beginning": (lambda path: pax(path, mtime="-" + "9" * 30), {"archive-damaged"}),
    "a time with a long tail": (lambda path: pax(path, mtime="1." + "9" * 5000), {""}),
    "a number of 100,000 digits": (lambda path: pax(path, size="9" * 100_000), {"archive-damaged"}),
    "a time of the year 10000": (lambda path: pax(path, mtime="253402300800"), {""}),
    "a head of lists": (
        lambda path: forged(path, head=filled_head(b"[" + b"[]," * 20_000_000 + b"[]]")),
        {"archive-damaged"},
    ),
    "a head of lists below the limit": (
        lambda path: forged(path, head=filled_head(b"[" + b"[]," * 5_000_000 + b"[]]")),
        {"archive-damaged"},
    ),
    "a deep head": (
        lambda path: forged(path, head=filled_head(b"[" * 50_000 + b"]" * 50_000)),
        {"archive-damaged"},
    ),
    "a head of numbers": (
        lambda path: forged(path, head=filled_head(b"9" * 60_000_000)),
        {"archive-damaged"},
    ),
    "a head with one long number": (
        lambda path: forged(path, head=filled_head(b"9" * 5_000)),
        {"archive-damaged", ""},
    ),
    "a line of lists": (
        lambda path: forged(path, entries=b"[" + b"[]," * 20_000_000 + b"[]]\n", files=SOUL),
        {"archive-damaged"},
    ),
    "lines of pieces": (
        lambda path: forged(
            path, entries=b"".join(line(pieces=[300] * 3_000_000) for _ in range(4)), files=SOUL
        ),
        {"archive-damaged"},
    ),
    "an endless line": (
        lambda path: forged(path, entries=b'{"path":"' + b"a" * 200_000_000 + b'"}\n', files=SOUL),
        {"archive-damaged"},
    ),
    "a forged time": (
        lambda path: forged(path, entries=line(mtime_ns=10**40), files=SOUL),
        {"archive-damaged"},
    ),
    "a forged name": (
        lambda path: forged(path, entries=line(path="a/" * 60_000 + "b"), files={"a/" * 15_000 + "b": b"x"}),
        {"archive-damaged", "archive-unsafe"},
    ),
    "a lone surrogate": (
        lambda path: forged(path, entries=line(path="\ud800"), files=SOUL),
        {"archive-damaged", "archive-unsafe"},
    ),
    "a forged database": (
        lambda path: forged(
            path, entries=line(database={"state": "sound", "lean": {"a": [1] * 9}}), files=SOUL
        ),
        {"archive-damaged", ""},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_archive_is_refused_in_time_and_in_little_memory(name, tmp_path, run):
    maker, codes = CASES[name]
    path = maker(str(tmp_path / "archive.zip"))
    target = tmp_path / "user" / ".hermes"
    target.mkdir(parents=True)
    (target / "config.yaml").write_text("mine: true\n")
    before = sorted(os.listdir(tmp_path / "user"))
    done = run("import", path, "--home", str(target), "--force")
    code = "" if done.code in (0, 3) else error_code(done.err)
    assert code in codes, done
    if code:
        assert (target / "config.yaml").read_text() == "mine: true\n"
        assert sorted(os.listdir(target)) == ["config.yaml"]
    left = set(os.listdir(tmp_path / "user")) - set(before)
    assert left <= {".local", ".hermes.safekept", ".config", ".cache"}, left
    # Whoever only looks is as safe: rotation and `status` read heads of archives that lie about.
    os.makedirs(target / "backups", exist_ok=True)
    os.rename(path, target / "backups" / "hermes-backup-2026-01-01.zip")
    assert run("status", "--home", str(target)).code in (0, 3, 4)


def test_a_bomb_that_says_it_is_ours_is_refused(tmp_path, run):
    """160 GB of zeros, by claim: more than any archive of ours can hold in so little."""
    files = {f"skills/{number}": b"x" for number in range(40)}
    path = forged(str(tmp_path / "a.zip"), files=files)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        if data[at + 46 :].startswith(b"skills/"):
            data[at + 24 : at + 28] = b"\xfe\xff\xff\xff"
        at = data.find(b"PK\x01\x02", at + 4)
    with open(path, "wb") as file:
        file.write(data)
    done = run("import", path, "--into", str(tmp_path / "out"), "--yes")
    assert done.code == 1
    assert error_code(done.err) == "archive-too-large", done.err


@pytest.mark.parametrize("form", ["zip", "tar.zst"])
@pytest.mark.parametrize("byte", [b"a", b"\0"], ids=["data", "holes"])
def test_an_archive_that_says_it_is_ours_has_the_ratio_of_any_other(tmp_path, form, byte):
    """By what comes out of it, with smaller bounds than a user's; zeros come back as holes, without room."""
    data = byte * (24 << 20)
    entry = Entry("skills/large", Kind.FILE, 0o600, 5, len(data), open=lambda: BytesContent(data))
    path = str(tmp_path / f"a.{form}")
    write_archive(EntryList([entry]), path, form=form, head={"layout": "hermes"}, closing=dict)
    limits = ReadLimits(ratio_floor=8 << 20)
    assert len(data) > 250 * os.path.getsize(path)
    with open_archive(path, limits) as archive:
        (found,) = archive
        for _ in range(2):  # a plan and a landing both read
            with contextlib.nullcontext() if byte == b"\0" else pytest.raises(ArchiveTooLarge) as raised:
                with found.open() as content:
                    read = sum(map(len, content.chunks()))
            if raised is None:
                assert read == len(data)
            else:
                assert "more than 250 times its size, as bombs do" in raised.value.what
                assert raised.value.next_steps[1] == NextStep(
                    "import", ("FILE", "--no-limits"), before="If you do, and there is room for it:"
                )
    with open_archive(path, NO_LIMITS) as archive:
        (found,) = archive
        with found.open() as content:
            assert sum(map(len, content.chunks())) == len(data)
