"""Layouts: what an agent's home looks like, as data.

A layout is a small TOML file per agent: how to find the home, what proves that it is one, what is
left out and why, what is secret, bound to this machine, executable, quick to keep, and counted.
Six are shipped; a user's own directory may add more or replace one by its name. The rules of a
home hold again at the root of each of its profiles, since a profile is a complete home.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from functools import cache, cached_property
from typing import Any

from safekept.core.agents import COMMON, SHIPPED
from safekept.core.records import dataclass
from safekept.core.sqlite.lean import Recipe

from .layout_file import read_layout
from .patterns import ANY_NAME, Matcher, Pattern
from .places import check_home, find_home, recognise
from .rules import Count, External, Proven, Rule

__all__ = ["Layout", "Rule", "check_home", "find_home", "load_layouts", "recognise"]


@dataclass(frozen=True)
class Layout:
    """One agent's home, described."""

    name: str
    title: str
    variable: str  # the environment variable that moves the home, or ""
    variable_suffix: str  # what the agent appends to that variable's value, or ""
    default: str  # relative to the user's home directory, or "" where there is none
    archive_prefix: str
    conversations: str  # how it keeps them: one of CONVERSATIONS
    strong: tuple[str, ...]  # one of these at the root proves a home
    weak: tuple[str, ...]  # or two of these
    rules: tuple[Rule, ...]
    proven: tuple[Proven, ...]
    external: tuple[External, ...]
    machine_bound_patterns: tuple[Pattern, ...]
    secret_patterns: tuple[Pattern, ...]
    private_patterns: tuple[Pattern, ...]
    database_patterns: tuple[Pattern, ...]
    quick_patterns: tuple[Pattern, ...]
    quick_except: tuple[Pattern, ...]
    essential_patterns: tuple[Pattern, ...]  # what a home that was ever used has, and each of its profiles
    tables: tuple[tuple[Pattern, tuple[str, ...]], ...]  # what a database at this place must have
    lean: tuple[tuple[Pattern, Recipe], ...]  # tables that can be rebuilt, by the place of their database
    executable_paths: tuple[Pattern, ...]
    executable_by_mode: tuple[Pattern, ...]
    worths: tuple[tuple[str, tuple[Pattern, ...]], ...]
    profiles: str  # the directory of profiles, or ""
    profile_name: str  # what a profile may be called, as a regular expression
    profile_reserved: frozenset[str]  # names that must not become commands
    profile_proof: tuple[str, ...]  # one of these makes a directory there a profile
    profile_tombstones: str  # below the profiles: a file here says that the one of its name is deleted
    wrapper_directory: str  # relative to the user's home directory
    wrapper_command: str  # the agent's command that a wrapper calls
    wrapper_text: str  # with {command} and {profile}
    code_hint: str  # the command that brings the agent's code back
    code_path: str  # where that code is in the home; a backup does not hold it
    service_hint: str
    profile_service_hint: str  # with {profile}
    counts: tuple[Count, ...]

    def excluded(
        self,
        path: str,
        directory: bool = False,
        siblings: Collection[str] = (),
        contents: Collection[str] = (),
    ) -> Rule | Proven | None:
        """The rule that leaves a path out, or None. Proofs need the names beside or inside it."""
        for rule in self._rule_matcher.covering(path, directory):
            return rule  # type: ignore[no-any-return]
        name = path.rsplit("/", 1)[-1]
        for proven in self.proven if directory else ():
            if proven.contains in contents or (proven.name == name and proven.beside in siblings):
                return proven
        return None

    def machine_bound(self, path: str) -> bool:
        """Whether an import must leave the target's own file alone."""
        return self._machine_bound.covers(path)

    def secret(self, path: str) -> bool:
        """Whether `--no-secrets` leaves it out; a secret lands as 0600."""
        return self._secret.covers(path)

    def secret_below(self, path: str) -> bool:
        """Whether a secret may lie below this directory."""
        return self._secret.covers(path, True) or self._secret.reaches_below(path)

    def private(self, path: str) -> bool:
        """Whether it must land as 0600: every secret, and what else is private."""
        return self._private.covers(path)

    def executable(self, path: str, mode: int = 0) -> bool:
        """Whether the agent would run it: its own code, a plugin, a hook, a script of a skill, a job."""
        if self.code_path and path.startswith(self.code_path + "/"):
            return True
        return self._executable.covers(path) or bool(mode & 0o111 and self._by_mode.covers(path))

    def quick(self, path: str) -> bool:
        """Whether it belongs to the small set of state files."""
        return self._quick.covers(path) and not self._quick_except.covers(path)

    def database(self, path: str) -> bool:
        """Whether a sound home has a SQLite database here."""
        return self._database.covers(path)

    def database_below(self, path: str) -> bool:
        """Whether a sound home may have a SQLite database below this directory."""
        return self._database.covers(path, True) or self._database.reaches_below(path)

    def tables_of(self, path: str) -> tuple[str, ...]:
        """The tables that a sound database at this place has, as far as the layout knows them."""
        return tuple(name for names in self._tables.covering(path) for name in names)

    def recipes(self, path: str) -> tuple[Recipe, ...]:
        """What is known of tables of this database that can be rebuilt."""
        return tuple(self._lean.covering(path))

    def worth(self, path: str) -> str:
        """`identity`, `memory`, `skills`, `history`, `secrets`, `settings`, or `other`.

        The innermost place decides: `/cron/output/` is history although `/cron/` is settings.
        """
        found: list[str] = list(self._worth.covering(path))
        return found[-1] if found else "other"

    def essential(self, path: str, directory: bool = False) -> bool:
        """Whether the agent would miss it: it has a worth, or something that may lie in it has."""
        return (
            self.database(path)
            or self._worth.covers(path, directory)
            or (directory and self._worth.reaches_below(path))
        )

    def profile_of(self, path: str) -> str:
        """`profiles/coder` for what lies in that profile, `default` for the rest."""
        if not self.profiles:
            return "default"
        parts = path.split("/", 2)
        inside = parts[0] == self.profiles and len(parts) > 1
        return f"{self.profiles}/{parts[1]}" if inside else "default"

    def valid_profile(self, name: str) -> bool:
        """Whether a profile may have this name, and a command made for it too."""
        return bool(re.fullmatch(self.profile_name, name)) and name not in self.profile_reserved

    def external_targets(self, user_home: str) -> dict[str, str]:
        """The only places outside a home that may be written: `_external/…` to absolute path."""
        return {external.prefix: os.path.join(user_home, external.path) for external in self.external}

    def everywhere(self, pattern: Pattern) -> list[Pattern]:
        """A pattern at the root of the home and at the root of each profile."""
        return [pattern, pattern.below(self.profiles, ANY_NAME)] if self.profiles else [pattern]

    def matcher(self, *groups: tuple[tuple[Pattern, ...], Any]) -> Matcher:
        """One matcher over groups of patterns, each with the value it stands for."""
        return Matcher(
            (place, value) for patterns, value in groups for one in patterns for place in self.everywhere(one)
        )

    @cached_property
    def rule_patterns(self) -> list[tuple[Pattern, Rule]]:
        """Each rule with each place where it holds."""
        return [
            (place, rule)
            for rule in self.rules
            for place in ([rule.pattern] if rule.root_only else self.everywhere(rule.pattern))
        ]

    @cached_property
    def _rule_matcher(self) -> Matcher:
        return Matcher(self.rule_patterns)

    @cached_property
    def counted(self) -> list[tuple[Count, Matcher]]:
        """Each census class with the places it counts."""
        return [(count, self.matcher((count.patterns, True))) for count in self.counts]

    @cached_property
    def _machine_bound(self) -> Matcher:
        return self.matcher((self.machine_bound_patterns, True))

    @cached_property
    def _secret(self) -> Matcher:
        return self.matcher((self.secret_patterns, True))

    @cached_property
    def _private(self) -> Matcher:
        return self.matcher((self.secret_patterns, True), (self.private_patterns, True))

    @cached_property
    def _executable(self) -> Matcher:
        return self.matcher((self.executable_paths, True))

    @cached_property
    def _by_mode(self) -> Matcher:
        return self.matcher((self.executable_by_mode, True))

    @cached_property
    def _quick(self) -> Matcher:
        return self.matcher((self.quick_patterns, True))

    @cached_property
    def _quick_except(self) -> Matcher:
        return self.matcher((self.quick_except, True))

    @cached_property
    def _database(self) -> Matcher:
        return self.matcher((self.database_patterns, True))

    @cached_property
    def _tables(self) -> Matcher:
        return self.matcher(*(((pattern,), names) for pattern, names in self.tables))

    @cached_property
    def _lean(self) -> Matcher:
        return self.matcher(*(((pattern,), recipe) for pattern, recipe in self.lean))

    @cached_property
    def _worth(self) -> Matcher:
        return self.matcher(*((patterns, word) for word, patterns in self.worths))


def load_layouts(extra: Sequence[str] = ()) -> dict[str, Layout]:
    """The shipped layouts and those in the user's directories; the same name replaces.

    A directory that does not exist has no layouts. Raises BadLayout for a file that is not one.
    """
    layouts = {}
    for file in _files(SHIPPED):
        name = file.removesuffix(".toml")
        if (found := shipped_layout(name)) is not None:
            layouts[name] = found
    for directory in extra:
        for file in _files(directory) if os.path.isdir(directory) else ():
            fields = read_layout(os.path.join(directory, file))
            layouts[fields["name"]] = make_layout(fields, _common())
    return layouts


@cache
def shipped_layout(name: str) -> Layout | None:
    """One that comes with safekept, whose file is called as it is; None where there is none. To need one
    does not cost reading all."""
    file = f"{name}.toml"
    if file not in _files(SHIPPED):
        return None
    return make_layout(read_layout(os.path.join(SHIPPED, file)), _common())


@cache
def _common() -> dict[str, Any]:
    from safekept.core.files.remakeable import shipped

    common = read_layout(os.path.join(SHIPPED, COMMON))
    rows = (row for row in shipped() if row.homes)
    proven = (Proven(row.reason, row.contains, row.signature, row.name, row.beside) for row in rows)
    return {**common, "proven": (*proven, *common["proven"])}


def _files(directory: str) -> list[str]:
    return [name for name in sorted(os.listdir(directory)) if name.endswith(".toml") and name != COMMON]


def make_layout(fields: dict[str, Any], common: dict[str, Any]) -> Layout:
    """A layout out of the fields of its file and of the file common to all."""
    merged = dict(fields)
    for key in ("rules", "proven"):
        merged[key] = (*common[key], *fields[key])
    for key, field in (
        ("machine_bound", "machine_bound_patterns"),
        ("secrets", "secret_patterns"),
        ("private", "private_patterns"),
        ("databases", "database_patterns"),
        ("quick", "quick_patterns"),
        ("essential", "essential_patterns"),
    ):
        merged[field] = merged.pop(key)
    return Layout(**merged)
