"""Reading one layout file: strict, because a misspelt key would silently protect nothing.

Every unknown key, wrong type or bad pattern is an error that names the file and the key.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from safekept.core.agents import SHIPPED
from safekept.core.errors import SafekeptError
from safekept.core.files.small import read_regular
from safekept.core.sqlite.lean import Recipe

from .patterns import Pattern, parse_pattern
from .rules import COUNT_KINDS, FILE, Count, External, Proven, Rule, is_file

#: How an agent keeps its conversations: see `home/conversations`.
CONVERSATIONS = ("state-db", "claude-code", "codex", "gemini", "opencode")
WORTHS = ("identity", "memory", "skills", "history", "secrets", "settings")


class BadLayout(SafekeptError):
    code, exit_code = "bad-layout", 2


class Table:
    """A TOML table whose every key must be asked for."""

    def __init__(self, path: str, where: str, values: Mapping[str, Any]) -> None:
        self.path, self.where, self.values, self.asked = path, where, values, set[str]()

    def fail(self, key: str, why: str) -> BadLayout:
        name = f"{self.where}.{key}" if self.where else key
        return BadLayout(
            f"The layout file `{self.path}`: `{name}` {why}",
            kept="Nothing changed; no layout was taken from this file",
            next_steps=(
                f"Correct `{name}` in `{self.path}`",
                f"Those that come with safekept are examples: `{SHIPPED}`",
            ),
            file=self.path,
            key=name,
        )

    def _get(self, key: str, kind: type, default: Any) -> Any:
        self.asked.add(key)
        value = self.values.get(key, default)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.fail(key, f"must be a {kind.__name__}")
        return value

    def string(self, key: str, default: str | None = "") -> str:
        if default is None and key not in self.values:
            raise self.fail(key, "is missing")
        value: str = self._get(key, str, default or "")
        if default is None and not value:
            raise self.fail(key, "is empty")
        return value

    def flag(self, key: str) -> bool:
        value: bool = self._get(key, bool, False)
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        value = self._get(key, list, [])
        if not all(isinstance(item, str) and item for item in value):
            raise self.fail(key, "must be a list of strings")
        return tuple(value)

    def patterns(self, key: str) -> tuple[Pattern, ...]:
        return tuple(self.pattern(key, text) for text in self.strings(key))

    def pattern(self, key: str, text: str) -> Pattern:
        """A pattern of a layout says where it is anchored: `/` or `**/` in front."""
        if not text.startswith(("/", "**/")):
            raise self.fail(key, f"has `{text}`, which must start with `/` (the root) or `**/` (any depth)")
        name = f"{self.where}.{key}" if self.where else key
        return parse_pattern(text, f"`{self.path}`, key `{name}`")

    def table(self, key: str) -> Table:
        where = f"{self.where}.{key}" if self.where else key
        return Table(self.path, where, self._get(key, dict, {}))

    def tables(self, key: str) -> list[Table]:
        items = self._get(key, list, [])
        where = f"{self.where}.{key}" if self.where else key
        if not all(isinstance(item, dict) for item in items):
            raise self.fail(key, "must be a list of tables (`[[…]]`)")
        return [Table(self.path, f"{where}[{number}]", item) for number, item in enumerate(items)]

    def done(self) -> None:
        for key in self.values:
            if key not in self.asked:
                known = ", ".join(sorted(self.asked))
                raise self.fail(key, f"is not a key of a layout; known here: {known}")


def read_layout(path: str) -> dict[str, Any]:
    """The validated fields of one layout file, ready for `Layout(**fields)`."""
    top = Table(path, "", _parse(path))
    name = top.string("name", None)
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise top.fail("name", "must be lower-case letters, digits and dashes")
    default = top.string("default")
    if default and (default.startswith(("/", "~")) or ".." in default.split("/")):
        raise top.fail("default", "is relative to the user's home directory, such as `.hermes`")
    fields: dict[str, Any] = {
        "name": name,
        "title": top.string("title") or name,
        "variable": top.string("variable"),
        "variable_suffix": top.string("variable_suffix"),
        "default": default,
        "archive_prefix": top.string("archive_prefix") or f"{name}-backup",
        "rules": _each(top.tables("exclude"), _rules),
        "proven": _each(top.tables("proven"), lambda table: (_proven(table),)),
        "external": _each(top.tables("external"), lambda table: (_external(table),)),
    }
    for key in ("machine_bound", "secrets", "private", "databases", "quick", "quick_except", "essential"):
        fields[key] = top.patterns(key)
    fields["conversations"] = top.string("conversations") or CONVERSATIONS[0]
    if fields["conversations"] not in CONVERSATIONS:
        raise top.fail("conversations", f"must be one of {', '.join(CONVERSATIONS)}")
    fields["tables"] = _tables(top.table("tables"))
    fields["lean"] = _each(top.tables("lean"), lambda table: (_lean(table),))
    markers = top.table("markers")
    fields["strong"], fields["weak"] = markers.strings("strong"), markers.strings("weak")
    runs = top.table("executable")
    fields["executable_paths"], fields["executable_by_mode"] = (
        runs.patterns("paths"),
        runs.patterns("by_mode"),
    )
    worth = top.table("worth")
    fields["worths"] = tuple((word, worth.patterns(word)) for word in WORTHS)
    fields |= _profiles(profiles := top.table("profiles"))
    hints = top.table("hints")
    fields["code_hint"], fields["code_path"] = hints.string("code"), hints.string("code_path")
    fields["service_hint"] = hints.string("service")
    fields["profile_service_hint"] = hints.string("profile_service")
    fields["counts"] = (*_counts(top.table("census")), *_lasting(top))
    for table in (markers, runs, worth, profiles, hints, top):
        table.done()
    return fields


def _parse(path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(read_regular(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also a number of 5,000 digits
        raise BadLayout(
            f"The layout file `{path}` is not TOML: {error}",
            kept="Nothing changed; no layout was taken from this file",
            next_steps=(f"Correct `{path}`, or move it out of {os.path.dirname(path)}",),
            file=path,
        ) from error
    except OSError as error:
        raise BadLayout(
            f"The layout file `{path}` cannot be read: {error.strerror}",
            kept="Nothing changed",
            next_steps=(f"Make `{path}` readable, or move it out of {os.path.dirname(path)}",),
            file=path,
        ) from error


def _each(tables: list[Table], make: Callable[[Table], tuple[Any, ...]]) -> tuple[Any, ...]:
    made: list[Any] = []
    for table in tables:
        made.extend(make(table))
        table.done()
    return tuple(made)


def _rules(table: Table) -> tuple[Rule, ...]:
    reason, root_only, always = table.string("reason", None), table.flag("root_only"), table.flag("always")
    proof, patterns = table.strings("proof"), table.patterns("patterns")
    if not patterns:
        raise table.fail("patterns", "is missing")
    return tuple(Rule(pattern, reason, root_only, always, proof) for pattern in patterns)


def _proven(table: Table) -> Proven:
    beneath = table.string("beneath")
    proven = Proven(
        reason=table.string("reason", None),
        contains=table.string("contains"),
        signature=table.string("signature").encode(),
        name=table.string("name"),
        beside=table.string("beside"),
        beneath=table.pattern("beneath", beneath) if beneath else None,
    )
    if bool(proven.contains) == bool(proven.name) or bool(proven.name) != bool(proven.beside):
        raise table.fail("contains", "or else `name` and `beside` together must be given")
    for key in ("contains", "name", "beside"):
        if "/" in getattr(proven, key):
            raise table.fail(key, "must be a single name")
    return proven


def _external(table: Table) -> External:
    external = External(
        path=table.string("path", None),
        file=table.string("file"),
        key=table.string("key"),
        equals=table.string("equals"),
        variable=table.string("variable"),
        variable_suffix=table.string("variable_suffix"),
        note=table.string("note"),
    )
    if len({bool(external.file), bool(external.key), bool(external.equals)}) > 1:
        raise table.fail(
            "file", "goes with `key` and `equals`: all three, or none for a place that always counts"
        )
    parts = external.path.split("/")
    if external.path.startswith(("/", "~")) or any(part in ("", ".", "..") for part in parts):
        raise table.fail("path", "must be a plain path relative to the user's home directory")
    return external


def _tables(table: Table) -> tuple[tuple[Pattern, tuple[str, ...]], ...]:
    """What a database must have, by the place of the database: `"/state.db" = ["sessions"]`."""
    found = tuple((table.pattern(place, place), table.strings(place)) for place in table.values)
    table.done()
    return found


def _lean(table: Table) -> tuple[Pattern, Recipe]:
    """A table of a database that can be rebuilt, and the exact schema for which that holds."""
    place = table.string("database", None)
    columns = table.table("columns")
    recipe = Recipe(
        table=table.string("table", None),
        statement=table.string("statement", None),
        source=table.string("source", None),
        key=table.string("key", None),
        columns={name: columns.string(name, None) for name in columns.values},
        triggers=table.strings("triggers"),
    )
    if not recipe.columns:
        raise table.fail("columns", "is missing")
    if not recipe.statement.lstrip().upper().startswith("CREATE VIRTUAL TABLE"):
        raise table.fail("statement", "must be the statement that makes a full-text table")
    return table.pattern("database", place), recipe


def _profiles(table: Table) -> dict[str, Any]:
    directory, name = table.string("directory").strip("/"), table.string("name") or r"[^/]+"
    if "/" in directory or directory in (".", ".."):
        raise table.fail("directory", "must be a single name at the root of the home")
    try:
        re.compile(name)
    except re.error as error:
        raise table.fail("name", f"is not a regular expression: {error}") from error
    return {
        "profiles": directory,
        "profile_name": name,
        "profile_reserved": frozenset(table.strings("reserved")),
        "profile_proof": table.strings("proof"),
        "profile_tombstones": table.string("tombstones").strip("/"),
        "wrapper_directory": table.string("wrapper_directory"),
        "wrapper_command": table.string("wrapper_command"),
        "wrapper_text": table.string("wrapper_text"),
    }


def _lasting(top: Table) -> tuple[Count, ...]:
    """Single files that stay once they are there, each as a class of its own by its path."""
    found = []
    for pattern in top.patterns("lasting"):
        path = "/".join(part for part in pattern.parts if isinstance(part, str))
        if pattern.directory or len(path.split("/")) < len(pattern.parts) or not is_file(path):
            raise top.fail("lasting", "names files, such as `/SOUL.md`: no `*`, and a dot in each name")
        found.append(Count(path, (pattern,), FILE))
    return tuple(found)


def _counts(census: Table) -> tuple[Count, ...]:
    counts = []
    for name in census.values:
        table = census.table(name)
        count = Count(
            name=name,
            patterns=table.patterns("paths"),
            kind=table.string("count", None),
            query=table.string("query"),
            delimiter=table.string("delimiter"),
            key=table.string("key"),
            watch=table.strings("watch"),
            restore=table.flag("restore"),
        )
        if is_file(name):
            raise census.fail(name, "has a dot in it, as only names of files have; see `lasting`")
        if not count.patterns:
            raise table.fail("paths", "is missing")
        if count.kind not in COUNT_KINDS:
            raise table.fail("count", f"must be one of {', '.join(COUNT_KINDS)}")
        if (count.kind == "query") != bool(count.query):
            raise table.fail("query", 'goes with `count = "query"`, and only with it')
        if (count.kind == "sections") != bool(count.delimiter):
            raise table.fail("delimiter", 'goes with `count = "sections"`, and only with it')
        if count.watch and count.kind != "json":
            raise table.fail("watch", 'goes with `count = "json"`')
        table.done()
        counts.append(count)
    census.done()
    return tuple(counts)
