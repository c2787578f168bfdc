"""Trees of the same files are the same bytes, whether restic made them or safekept did."""

from __future__ import annotations

import os

from safekept.core.sqlite import CaptureOptions
from safekept.home.layout.layout import load_layouts
from safekept.home.scan.scanning import scan
from safekept.vault.format.blobs import BlobKind
from safekept.vault.repo.keys import Secret
from safekept.vault.repo.repository import Repository
from safekept.vault.storage import FileKind, LocalStorage
from safekept.vault.write.writer import Description, write_snapshot
from support.vault.vaults import CHEAP, SECRET

PASSWORD = SECRET.text


def awkward_home(root: str) -> str:
    home = os.path.join(root, "a user", "the home")
    files = {
        b"plain.md": b"hello\n",
        b"empty": b"",
        b'with space and "quotes" <&> \\.txt': b"x" * 100,
        "ünïcode ✓.md".encode(): b"y" * 5000,
        b"not utf-8 \xff\xfe": b"z",
        b"new\nline": b"n",
        b"deep/er/est/file": b"1" * 70_000,
        b"deep/\xed\xb2\x80": b"a lone surrogate as bytes",
        "deep/\U0001f600".encode(): b"beyond the basic plane",
        b"half a megabyte": os.urandom(512 << 10),
        b"setuid": b"s",
        b"secret": b"s",
    }
    for name, data in files.items():
        path = os.path.join(os.fsencode(home), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    os.chmod(os.path.join(home, "setuid"), 0o4755)
    os.chmod(os.path.join(home, "secret"), 0o600)
    os.makedirs(os.path.join(home, "empty directory"))
    os.makedirs(os.path.join(home, "sticky"))
    os.chmod(os.path.join(home, "sticky"), 0o3777)
    os.symlink("plain.md", os.path.join(home, "link"))
    os.symlink("nowhere/at all", os.path.join(home, "dangling"))
    os.link(os.path.join(home, "plain.md"), os.path.join(home, "second name"))
    os.utime(os.path.join(home, "empty"), ns=(5, 1_600_000_000_000_000_000))
    os.utime(os.path.join(home, "secret"), ns=(7, 1_650_000_000_120_000_000))
    if os.geteuid() == 0:
        os.chown(os.path.join(home, "secret"), 12345, 54321)
        os.chown(os.path.join(home, "plain.md"), 1, 1)
    return home


def test_nodes_of_the_same_files_are_what_restic_writes(restic, tmp_path):
    home = awkward_home(str(tmp_path))
    theirs_path, ours_path = os.path.join(tmp_path, "theirs"), os.path.join(tmp_path, "ours")
    run = restic(theirs_path, PASSWORD)
    run("init", "--repository-version", "2")
    run("backup", home)
    layout = load_layouts()["generic"]
    source = scan(
        home,
        layout,
        capture=CaptureOptions(scratch=str(tmp_path), isolated=False),
        user_home=str(tmp_path),
    )
    with Repository.init(LocalStorage(ours_path), SECRET, cost=CHEAP) as ours:
        stored = write_snapshot(
            ours, source, lock=None, roots={"": home}, describe=lambda account: Description({"format": "x"})
        )
        assert stored.account.complete, stored.account.remarks
        with Repository.open(LocalStorage(theirs_path), Secret(PASSWORD)) as theirs:
            ((name, _),) = theirs.storage.list(FileKind.SNAPSHOT)
            compare(ours, stored.snapshot.tree, theirs, theirs.load_snapshot(name).tree, home)


def compare(ours: Repository, tree: bytes, theirs: Repository, other: bytes, home: str) -> None:
    """Down the path to the home each node is the same but for what lies beside it; there, the id is."""
    for part in home.strip("/").split("/"):
        mine, yours = ours.load_tree(tree).find(part), theirs.load_tree(other).find(part)
        assert mine is not None
        assert yours is not None
        assert mine.subtree is not None
        assert yours.subtree is not None
        tree, other = mine.subtree, yours.subtree
        mine.subtree = yours.subtree = None
        if part not in ("a user", "the home"):  # others write there while this test runs
            mine.mtime_ns = mine.atime_ns = mine.ctime_ns = 0
            yours.mtime_ns = yours.atime_ns = yours.ctime_ns = 0
        assert mine == yours
    if tree != other:
        left = ours.load_blob(BlobKind.TREE, tree).split(b'{"name"')
        right = theirs.load_blob(BlobKind.TREE, other).split(b'{"name"')
        assert left == right
    assert tree == other
