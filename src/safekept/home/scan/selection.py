"""What a caller wants of a home, and the decision for each path.

Order of strength: what must never be inside (where the backup itself is written, our own work
area), then `--no-secrets`, then `--include`, then `--exclude`, then the layout's rules. Outside a
narrowing (`--quick`, one profile) nothing is selected unless `--include` names it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cached_property
from typing import NamedTuple

from safekept.core.records import dataclass

from ..layout.layout import Layout
from ..layout.patterns import Matcher, Pattern, parse_pattern
from ..layout.rules import Count, Rule

#: Why something is never inside, whatever was asked for.
KEPT_HERE = "where this backup or a store of safekept's is kept"


@dataclass(frozen=True)
class Selection:
    """What to take of a home; by default all that its layout does not leave out."""

    include: tuple[str, ...] = ()  # patterns; everything at and below them comes back
    exclude: tuple[str, ...] = ()  # patterns; `foo` means at the root, `**/foo` anywhere
    secrets: bool = True
    profile: str = ""  # only this profile, under its path in the home
    quick: bool = False  # only the small set of state files


class Inherited(NamedTuple):
    """What holds for a directory and so for everything below it."""

    included: bool = False
    in_profile: bool = False
    in_quick: bool = False


class PathDecision(NamedTuple):
    """The decision for one path."""

    selected: bool
    standing: Inherited
    reason: str = ""  # why it was left out, where a rule did it
    by_caller: bool = False  # the caller's wish, not the layout's rule
    proof: tuple[str, ...] = ()  # the rule holds only if one of these exists below
    counts: tuple[Count, ...] = ()
    database: bool = False  # the layout expects a database here
    final: bool = False  # nothing below it can be wanted either, whatever `--include` says


class Judge:
    """Decides for every path of one scan; remembers which of the caller's patterns were used."""

    def __init__(self, home: str, layout: Layout, selection: Selection, avoid: Collection[str]) -> None:
        self.selection = selection
        self.used: set[str] = set()
        includes: list[tuple[Pattern, tuple[str, object]]] = []
        for text in selection.include:
            includes.append((_own_pattern(text, home), ("include", text)))
        if selection.quick:
            includes += _tagged(layout, layout.quick_patterns, "quick")
        if selection.profile:
            wanted = Pattern(selection.profile, (layout.profiles, selection.profile), True)
            includes.append((wanted, ("profile", None)))
        #: What is looked for; where its node is dead, nothing below can be wanted.
        self.includes = Matcher(includes)
        facts: list[tuple[Pattern, tuple[str, object]]] = []
        facts += [(_literal(os.path.relpath(path, home)), ("avoid", None)) for path in avoid if path != home]
        facts += [(pattern, ("rule", rule)) for pattern, rule in layout.rule_patterns]
        facts += [(_own_pattern(text, home), ("exclude", text)) for text in selection.exclude]
        facts += _tagged(layout, layout.database_patterns, "database")
        if selection.quick:
            facts += _tagged(layout, layout.quick_except, "not quick")
        if not selection.secrets:
            facts += _tagged(layout, layout.secret_patterns, "secret")
        for count in layout.counts:
            facts += [(place, ("count", count)) for one in count.patterns for place in layout.everywhere(one)]
        self.facts = Matcher(facts)
        self._layout = layout

    def decide(
        self,
        wished: tuple[tuple[tuple[str, object], bool], ...],
        found: tuple[tuple[tuple[str, object], bool], ...],
        directory: bool,
        standing: Inherited,
        dropped: bool,
    ) -> PathDecision:
        """The decision for one name, from what the two matchers said about it."""
        included_itself, (included, in_profile, in_quick) = False, standing
        for (kind, value), wants_directory in wished:
            if wants_directory and not directory:
                continue
            if kind == "include":
                included = included_itself = True
                self.used.add(str(value))
            in_profile = in_profile or kind == "profile"
            in_quick = in_quick or kind == "quick"
        # What is outside the chosen profile is not left out: it was never asked for.
        outside = not self.within_profile(Inherited(included, in_profile))
        rules: list[Rule] = []
        wish, secret, database, counts = "", False, False, []
        for (kind, value), wants_directory in found:
            if wants_directory and not directory:
                continue
            if kind == "avoid":
                return PathDecision(False, standing, "" if outside else KEPT_HERE, final=True)
            if isinstance(value, Rule):
                if value.always:
                    return PathDecision(False, standing, "" if outside else value.reason, final=True)
                rules.append(value)
            elif isinstance(value, Count):
                counts.append(value)
            elif kind == "exclude":
                wish = f"left out by `--exclude {value}`"
                self.used.add(str(value))
            secret = secret or kind == "secret"
            database = database or kind == "database"
            in_quick = in_quick and kind != "not quick"
        below = Inherited(included, in_profile, in_quick)
        if outside:
            return PathDecision(False, below)
        if secret and not included_itself:
            return PathDecision(False, below, "a secret, left out by `--no-secrets`", by_caller=True)
        if not included:
            if wish:
                return PathDecision(False, below, wish, by_caller=True)
            if rules and not dropped:
                return PathDecision(False, below, rules[0].reason, proof=rules[0].proof)
            if dropped or not self.wanted(below):
                return PathDecision(False, below)
        return PathDecision(True, below, counts=tuple(counts), database=database)

    def within_profile(self, standing: Inherited) -> bool:
        """Whether it belongs to the chosen profile, if one was chosen, or is included by name."""
        return not self.selection.profile or standing.in_profile or standing.included

    def wanted(self, standing: Inherited) -> bool:
        """Whether the narrowing of this selection covers it."""
        if self.selection.profile and not standing.in_profile:
            return False
        return standing.in_quick or not self.selection.quick

    def unused(self) -> list[tuple[str, str]]:
        """The caller's patterns that matched nothing: (option, pattern)."""
        options = [("--include", text) for text in self.selection.include]
        options += [("--exclude", text) for text in self.selection.exclude]
        return [(option, text) for option, text in options if text not in self.used]

    @cached_property
    def count_matchers(self) -> list[tuple[Count, Matcher]]:
        """Each census class with the places it counts."""
        return [(count, self._layout.matcher((count.patterns, True))) for count in self._layout.counts]

    def covers(self, layout: Layout, count: Count) -> bool:
        """Whether this selection takes everything that a census class counts."""
        if not self.selection.quick:
            return True
        return all(layout.quick(_sample(pattern)) for pattern in count.patterns)


def _tagged(
    layout: Layout, patterns: tuple[Pattern, ...], tag: str
) -> list[tuple[Pattern, tuple[str, object]]]:
    return [(place, (tag, None)) for one in patterns for place in layout.everywhere(one)]


def _own_pattern(text: str, home: str) -> Pattern:
    """A pattern as a person types it; a full path into the home means the place in it."""
    return parse_pattern(text.removeprefix(home) if text.startswith(home.rstrip("/") + "/") else text)


def _literal(relative: str) -> Pattern:
    return Pattern(relative, tuple(relative.split("/")), False)


def _sample(pattern: Pattern) -> str:
    """A path that a pattern matches."""
    return "/".join(part if isinstance(part, str) and part != "**" else "x" for part in pattern.parts)
