"""What is not as a snapshot saw it: found by looking at what is there, and not at what a link leads to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from safekept.home.health.recorded import Mark, Recorded, since


def marks(place: Path, *names: str) -> list[Mark]:
    found = []
    for name in names:
        facts = os.lstat(place / name)
        found.append((name, facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns))
    return found


def made(place: Path) -> Recorded:
    """A home with a file, and a directory with another."""
    (place / "memories").mkdir(parents=True)
    (place / "SOUL.md").write_text("a soul\n")
    (place / "memories" / "one.md").write_text("a memory\n")
    seen = [("", marks(place, "SOUL.md"), ()), ("memories", marks(place / "memories", "one.md"), ())]
    return Recorded({"": str(place)}, lambda: iter(seen), {}, {})


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_directory_that_became_a_link_to_the_same_files_is_gone(tmp_path: Path):
    """The next snapshot holds the link alone, so what is behind it is kept by nobody."""
    recorded = made(tmp_path / "home")
    assert since(recorded).gone == []
    os.rename(tmp_path / "home" / "memories", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", tmp_path / "home" / "memories")
    found = since(recorded)
    assert (found.gone, found.changed, found.closed) == (["memories/one.md"], {}, {})


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_root_that_is_a_link_is_looked_at_where_it_leads(tmp_path: Path):
    recorded = made(tmp_path / "real")
    os.symlink(tmp_path / "real", tmp_path / "home")
    os.symlink(tmp_path / "real" / "memories", tmp_path / "more")
    home, more = recorded.directories()
    seen = [home, more, ("_external/more", more[1], ())]
    roots = {"": str(tmp_path / "home"), "_external/more": str(tmp_path / "more")}
    found = since(Recorded(roots, lambda: iter(seen), {}, {}))
    assert (found.gone, found.changed, found.closed, found.files) == ([], {}, {}, 3)
