"""The pattern language of layouts, `--include` and `--exclude`, and its matcher.

A pattern names a place in a home, never a bare name anywhere:

* it is anchored at the root of the home: `/cache/web` is that one path (`cache/web` is the same);
* `*` stands for any characters within one component: `/memories/*.md`;
* `**` as a whole component stands for any number of components, also none: `/skills/**/SKILL.md`;
* a trailing `/` asks for a directory: `/hermes-agent/`; what it covers includes all below it;
* every other character is itself (`?`, `#`, `%`, `[` are ordinary in file names); `\\` before a
  character takes away its meaning: `/what\\*`.

A `Matcher` holds many patterns, each with something of the caller's attached, and answers for one
name at a time while a tree is walked. It is an automaton built as it is used: a name that no
pattern cares about costs one dictionary lookup, however many patterns there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from safekept.core.errors import SafekeptError

_ANY_DEPTH = "**"
#: So many directories are remembered by a matcher before it starts afresh.
_DIRECTORIES = 4096


class BadPattern(SafekeptError):
    code, exit_code = "bad-pattern", 2


def bad_pattern(text: str, why: str, where: str = "") -> BadPattern:
    """The error for a pattern that cannot mean anything; `where` names a layout file and key."""
    place = f" in {where}" if where else ""
    return BadPattern(
        f"The pattern `{text}`{place} {why}",
        kept="Nothing changed",
        next_steps=(
            "Write it from the root of the home, such as `/skills/old/` or `/memories/*.md`; "
            "`*` stays within one name, `**` spans directories",
        ),
        pattern=text,
        where=where,
    )


class Glob(NamedTuple):
    """A component with `*` in it."""

    first: str  # the character that a name must start with, or "" where any will do
    expression: re.Pattern[str]


class Pattern(NamedTuple):
    """One parsed pattern: literal components, those with `*`, and `**`."""

    text: str
    parts: tuple[str | Glob, ...]
    directory: bool

    def below(self, *parts: str | Glob) -> Pattern:
        """The same pattern anchored further down, as at the root of a profile."""
        return Pattern(self.text, (*parts, *self.parts), self.directory)


ANY_NAME = Glob("", re.compile(r"[\s\S]+\Z"))


def parse_pattern(text: str, where: str = "") -> Pattern:
    """Read one pattern. Raises BadPattern, naming what is wrong with it."""
    body = text.removeprefix("/")
    directory = body.endswith("/") and not body.endswith("\\/")
    body = body.removesuffix("/") if directory else body
    if "\0" in text:
        raise bad_pattern(text.replace("\0", "\\0"), "holds a NUL, which no path can", where)
    if not body:
        raise bad_pattern(text, "is empty", where)
    parts = tuple(_parse_part(part, text, where) for part in body.split("/"))
    if all(part == _ANY_DEPTH for part in parts):
        raise bad_pattern(text, "would match everything", where)
    return Pattern(text, parts, directory)


def _parse_part(part: str, text: str, where: str) -> str | Glob:
    if part == _ANY_DEPTH:
        return _ANY_DEPTH
    if part in ("", ".", ".."):
        raise bad_pattern(text, f"has the component `{part}`, which no path in a home has", where)
    if "**" in part.replace("\\*", ""):
        raise bad_pattern(text, "uses `**` inside a name; it stands alone between slashes", where)
    literal: list[str] = []
    expression: list[str] = []
    first = None
    characters = iter(part)
    for character in characters:
        if character == "\\":
            character = next(characters, "")
            if not character:
                raise bad_pattern(text, "ends a name with a lone `\\`", where)
        elif character == "*":
            first = "".join(literal)[:1] if first is None else first
            expression.append(r"[\s\S]*")
            continue
        literal.append(character)
        expression.append(re.escape(character))
    if first is None:
        return "".join(literal)
    return Glob(first, re.compile("".join(expression) + r"\Z"))


class _State(NamedTuple):
    pattern: int  # which pattern
    part: int  # which of its components comes next


class PatternNode:
    """Where the walk stands: the patterns that may still match below one directory."""

    __slots__ = ("_deep", "_firsts", "_globs", "_literals", "_matcher", "_names", "_rest", "alive")

    def __init__(self, matcher: Matcher, states: frozenset[_State]) -> None:
        self._matcher = matcher
        self._literals: dict[str, list[_State]] = {}
        self._globs: list[tuple[re.Pattern[str], _State]] = []
        self._firsts: set[str] = set()  # with "" in it, a name may start with anything
        self._deep: list[_State] = []
        self._names: dict[str, PatternNode] = {}
        self._rest: PatternNode | None = None
        self.alive = bool(states)
        for state in sorted(states):
            self._add(state)

    def _add(self, state: _State) -> None:
        part = self._matcher.patterns[state.pattern].parts[state.part]
        if part == _ANY_DEPTH:
            self._deep.append(state)
        elif isinstance(part, str):
            self._literals.setdefault(part, []).append(state)
        else:
            self._globs.append((part.expression, state))
            self._firsts.add(part.first)

    def match(self, name: str) -> tuple[Any, ...]:
        """What is attached to the patterns that this name completes; mostly `()`."""
        firsts = self._firsts
        if name not in self._literals and (not firsts or (name[:1] not in firsts and "" not in firsts)):
            return ()
        matcher = self._matcher
        hits = self._hits(name)
        return tuple(matcher.final[state.pattern] for state in hits if matcher.ends(state))

    def _hits(self, name: str) -> list[_State]:
        """The states whose component accepts a name, in the order of their patterns."""
        globs = [state for expression, state in self._globs if expression.match(name)]
        return sorted([*self._literals.get(name, ()), *globs])

    def below(self, name: str) -> PatternNode:
        """The node for what lies in a directory of this name."""
        matcher = self._matcher
        advanced = self._hits(name)
        if not advanced:
            if self._rest is None:
                self._rest = matcher.node(self._deep)
            return self._rest
        node = self._names.get(name)
        if node is None:
            node = matcher.node([*self._deep, *filter(None, map(matcher.after, advanced))])
            if len(self._names) < 4096:  # the names that a `*` accepts have no end
                self._names[name] = node
        return node


class Matcher:
    """Many patterns, each with a value; `root` is the node at the home's own root."""

    def __init__(self, patterns: Iterable[tuple[Pattern, Any]]) -> None:
        pairs = list(patterns)
        self.patterns = [pattern for pattern, _ in pairs]
        self.final: list[tuple[Any, bool]] = [(value, pattern.directory) for pattern, value in pairs]
        self._nodes: dict[frozenset[_State], PatternNode] = {}
        self._directories: dict[str, PatternNode | None] = {}
        self.root = self.node([_State(number, 0) for number in range(len(pairs))])

    def node(self, states: Iterable[_State]) -> PatternNode:
        """The one node for a set of states; a `**` may also stand for nothing."""
        whole: set[_State] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state not in whole:
                whole.add(state)
                parts = self.patterns[state.pattern].parts
                if parts[state.part] == _ANY_DEPTH and state.part + 1 < len(parts):
                    waiting.append(_State(state.pattern, state.part + 1))
        key = frozenset(whole)
        if key not in self._nodes:
            self._nodes[key] = PatternNode(self, key)
        return self._nodes[key]

    def ends(self, state: _State) -> bool:
        """Whether matching this component completes the pattern."""
        parts = self.patterns[state.pattern].parts
        rest = parts[state.part + 1 :]
        return all(part == _ANY_DEPTH for part in rest)

    def after(self, state: _State) -> _State | None:
        """The state in the directory below a matched component."""
        if state.part + 1 < len(self.patterns[state.pattern].parts):
            return _State(state.pattern, state.part + 1)
        return None

    def covering(self, path: str, directory: bool = False) -> Iterator[Any]:
        """The values whose pattern matches this path or a directory above it, outermost first."""
        node = self.root
        names = path.split("/")
        for depth, name in enumerate(names):
            if not node.alive:
                return
            last = depth == len(names) - 1
            for value, wants_directory in node.match(name):
                if not (last and wants_directory and not directory):
                    yield value
            if not last:
                node = node.below(name)

    def reaches_below(self, path: str) -> bool:
        """Whether a pattern may match something below this directory."""
        node = self.root
        for name in path.split("/"):
            node = node.below(name)
        return node.alive

    def covers(self, path: str, directory: bool = False) -> bool:
        """Whether any pattern matches this path or a directory above it."""
        above, _, name = path.rpartition("/")
        node = self._inside(above) if above else self.root
        if node is None:
            return True
        return any(directory or not wants_directory for _, wants_directory in node.match(name))

    def _inside(self, path: str) -> PatternNode | None:
        """The node for what lies in a directory; None where a pattern covers that directory whole.

        Remembered, because the files of a directory come one after the other, and walking down to
        each again was the half of planning an import.
        """
        directories, known, below = self._directories, path, []
        while known and known not in directories:
            known, _, name = known.rpartition("/")
            below.append(name)
        node = directories[known] if known else self.root
        while below:  # not by recursion: a path may have thousands of components
            name = below.pop()
            known = f"{known}/{name}" if known else name
            if node is not None:
                node = None if node.match(name) else node.below(name)
            if len(directories) >= _DIRECTORIES:
                directories = self._directories = {}  # a new one: other threads may be reading the old
            directories[known] = node
        return node
