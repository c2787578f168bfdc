"""The pattern language: anchored, small, and the same by the matcher as by its definition."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safekept.home.layout.patterns import BadPattern, Matcher, parse_pattern


def covers(pattern: str, path: str, directory: bool = False) -> bool:
    return Matcher([(parse_pattern(pattern), True)]).covers(path, directory)


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/backups", "backups", True),
        ("/backups", "backups/a/b", True),
        ("/backups", "skills/foo/backups", False),
        ("backups", "skills/foo/backups", False),
        ("/backups", "backups2", False),
        ("/backups/", "backups/a", True),
        ("/memories/*.md", "memories/USER.md", True),
        ("/memories/*.md", "memories/deep/USER.md", False),
        ("/memories/*.md", "memories/.md", True),
        ("/skills/**/SKILL.md", "skills/SKILL.md", True),
        ("/skills/**/SKILL.md", "skills/a/b/c/SKILL.md", True),
        ("/skills/**/SKILL.md", "other/skills/a/SKILL.md", False),
        ("**/__pycache__", "a/b/__pycache__/c.pyc", True),
        ("**/__pycache__", "__pycache__", True),
        ("**/__pycache__", "a/my__pycache__", False),
        ("/a*b/c", "axxb/c", True),
        ("/a*b/c", "ax/b/c", False),
        ("/odd?#%[x]", "odd?#%[x]", True),
        ("/odd?", "oddx", False),
        ("/what\\*", "what*", True),
        ("/what\\*", "whatever", False),
        ("/new*", "new\nline", True),
        ("/\udcff*", "\udcff\udcfe", True),
        ("/a/**/b/**/c", "a/b/c", True),
        ("/a/**/b/**/c", "a/x/b/y/z/c", True),
        ("/a/**/b/**/c", "a/x/y/c", False),
    ],
)
def test_a_pattern_means_one_anchored_place(pattern: str, path: str, expected: bool) -> None:
    assert covers(pattern, path) is expected


def test_a_trailing_slash_asks_for_a_directory() -> None:
    assert not covers("/cache/", "cache")
    assert covers("/cache/", "cache", directory=True)
    assert covers("/cache/", "cache/x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("/", "is empty"),
        ("/a//b", "the component ``"),
        ("/a/../b", "the component `..`"),
        ("./a", "the component `.`"),
        ("/a/x**y", "stands alone between slashes"),
        ("**", "match everything"),
        ("/a\0b", "NUL"),
        ("/end\\", "lone"),
    ],
)
def test_a_pattern_that_means_nothing_is_refused_with_what_to_write(text: str, why: str) -> None:
    with pytest.raises(BadPattern) as caught:
        parse_pattern(text)
    assert why in caught.value.what
    assert caught.value.kept == "Nothing changed"
    assert "`/skills/old/`" in caught.value.advice()[0]
    assert caught.value.exit_code == 2


NAMES = st.text(alphabet="ab*", min_size=1, max_size=3).filter(lambda name: "**" not in name)
PATHS = st.lists(st.text(alphabet="ab", min_size=1, max_size=3), min_size=1, max_size=5)


def by_definition(parts: list[str], path: list[str]) -> bool:
    """The language read naively: does the pattern match the path or a directory above it?"""
    if not parts:
        return True
    if parts[0] == "**":
        return by_definition(parts[1:], path) or bool(path and by_definition(parts, path[1:]))
    return bool(path) and _name(parts[0], path[0]) and by_definition(parts[1:], path[1:])


def _name(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(_name(pattern[1:], name[start:]) for start in range(len(name) + 1))
    return bool(name) and name[0] == pattern[0] and _name(pattern[1:], name[1:])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.lists(NAMES | st.just("**"), min_size=1, max_size=4), min_size=1, max_size=4), PATHS)
def test_the_matcher_agrees_with_the_definition(patterns: list[list[str]], path: list[str]) -> None:
    usable = [parts for parts in patterns if any(part != "**" for part in parts)]
    matcher = Matcher((parse_pattern("/" + "/".join(parts)), number) for number, parts in enumerate(usable))
    expected = {number for number, parts in enumerate(usable) if by_definition(parts, path)}
    assert set(matcher.covering("/".join(path))) == expected
    # Asked again, the automaton that the first answer built says the same.
    assert set(matcher.covering("/".join(path))) == expected
    # So does the short way, which remembers directories, for the path and for all above it.
    for depth in range(len(path), 0, -1):
        expected = {number for number, parts in enumerate(usable) if by_definition(parts, path[:depth])}
        assert matcher.covers("/".join(path[:depth]), directory=True) is bool(expected)


@given(st.text(alphabet=st.characters(exclude_characters="\0/\\*"), min_size=1, max_size=12))
def test_any_name_can_be_written_as_a_pattern(name: str) -> None:
    if name not in (".", ".."):
        assert covers("/" + name, name)
        assert not covers("/" + name, "x" + name)


def test_what_a_matcher_remembers_is_bounded_and_depth_is_not() -> None:
    matcher = Matcher([(parse_pattern("/**/old/*.md"), True)])
    for number in range(10_000):
        assert matcher.covers(f"{number}/old/a.md") and not matcher.covers(f"{number}/new/a.md")
    assert len(matcher._directories) <= 4096
    deep = "/".join(["d"] * 5000)
    assert matcher.covers(f"{deep}/old/a.md") and not matcher.covers(f"{deep}/a.md")
