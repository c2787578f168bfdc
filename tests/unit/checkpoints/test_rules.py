"""Rules, names and descriptions: small tables that must not lose anything."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safekept.checkpoints.project import MARKERS
from safekept.checkpoints.scan.rules import (
    DIRECTORIES,
    FILES,
    NO_SECRETS,
    SECRET_DIRECTORIES,
    SECRET_FILES,
    Rules,
)
from safekept.checkpoints.store import metadata as meta
from safekept.checkpoints.store.objects import meta_name, real_meta_name, real_name, stored_name

REFERENCE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "reference", "checkpoints.md")
SIZE = st.integers(0, 2**50)
NAME = st.binary(min_size=1, max_size=20).filter(lambda raw: b"/" not in raw and b"\0" not in raw)


def test_every_rule_is_documented():
    with open(REFERENCE, encoding="utf-8") as file:
        text = file.read()
    words = [*DIRECTORIES, *FILES, *SECRET_DIRECTORIES, *SECRET_FILES, *NO_SECRETS, *MARKERS[:2]]
    assert [word for word in words if f"`{word}`" not in text] == []


@pytest.mark.parametrize(
    ("name", "is_directory", "reason"),
    [
        (b"node_modules", True, "excluded"),
        (b"node_modules", False, None),
        (b"build", True, "excluded"),
        (b"builder", True, None),
        (b"a.pyc", False, "excluded"),
        (b"a.tar.gz", False, "excluded"),
        (b".env", False, "secret"),
        (b".env.production", False, "secret"),
        (b".env.example", False, None),
        (b".environment", False, None),
        (b"server.key", False, "secret"),
        (b"keyboard.py", False, None),
        (b".ssh", True, "secret"),
        (b".git", True, "git"),
        (b".git", False, "git"),
        (b".GIT", True, "git"),
        (b".github", True, None),
        (b"\xff\xfe", False, None),
        (b"a\nb.log", False, "excluded"),
    ],
)
def test_names_are_decided_before_anything_is_opened(name, is_directory, reason):
    assert Rules().decide(b"some/where", name, is_directory) == reason


def test_the_users_list_adds_and_takes_back():
    rules = Rules(("*.bak", "data/", "docs/drafts", "!build", "!*.log"))
    assert rules.decide(b"", b"x.bak", False) == "excluded"
    assert rules.decide(b"", b"data", True) == "excluded"
    assert rules.decide(b"", b"data", False) is None
    assert rules.decide(b"docs", b"drafts", True) == "excluded"
    assert rules.decide(b"other", b"drafts", True) is None
    assert rules.decide(b"", b"build", True) is None
    assert rules.decide(b"", b"x.log", False) is None
    assert rules.decide(b"", b".env", False) == "secret"


@given(NAME)
def test_any_name_comes_back_from_a_tree(name):
    assert real_name(stored_name(name)) == name
    assert real_name(stored_name(name, link=True)) == name
    assert real_meta_name(meta_name(name)) == name
    assert meta_name(name) != b".meta"


@pytest.mark.parametrize(
    "name",
    [
        b".git",
        b".GIT ",
        b"git~1",
        b".gitmodules",
        b".GitModules.",
        b".gitattributes",
        b"GITMOD~1",
        b"gi7eba~1",
    ],
)
def test_names_that_git_distrusts_are_never_in_a_tree(name):
    assert stored_name(name).startswith(b"safekept%")
    assert stored_name(b"x\\" + name).startswith(b"safekept%")
    assert stored_name(b"\xe2\x80\x8c" + name).startswith(b"safekept%")


@given(
    st.dictionaries(
        NAME, st.tuples(st.integers(0, 0o7777), st.integers(-(10**18), 10**19), st.integers(0, 2**50))
    ),
    st.dictionaries(NAME, st.tuples(st.sampled_from(["oversize", "ignored"]), st.integers(0, 2**50))),
    st.sets(NAME),
    st.booleans(),
)
def test_a_description_reads_back_whatever_the_names(entries, skipped, absent, partial):
    described = meta.Meta(0o2755, 12345, partial, entries, skipped, absent)
    assert meta.decode(meta.encode(described)) == described
