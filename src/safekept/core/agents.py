"""Where agents' homes are: by the variable that moves one, by its usual place, by what lies in it.

Only the head of a layout is read here, without the rules of what is kept, so that a command that works on a
project learns which directories are homes and pays for nothing else. What is found is the home that is used
and the one that is printed. A variable that points at a profile means the home around it. A home behind a
link is used where it really is; the link or mount point itself is never touched.
"""

from __future__ import annotations

import contextlib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from .errors import SafekeptError
from .files.small import read_regular
from .records import dataclass

# What every floor may know of an agent: where its home is, and how its settings are read.

#: What an agent's command is called while a script of ours stands in its place.
PUT_ASIDE = ".before-safekept"


# Looking into an agent's YAML settings: what is written there, without building what it means. Only the
# tree of nodes is read, so no tag can construct anything, an alias counts once and a loop ends. Where a
# key is given twice the last one holds, as in the parser that Hermes uses.

#: No settings of an agent come near this. Reading YAML is slow: a megabyte of it takes half a minute.
LONGEST, MOST_NODES, MOST_BRACKETS, DEEPEST = 128 << 10, 10_000, 8_000, 64
_BRACKETS = re.compile(r"[\[\]{}]")


def compose(text: str) -> Any:
    """The root node of a document, or None where it is empty.

    Raises ValueError if it is not YAML, or more of it than settings ever are.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer
    from ruamel.yaml.error import YAMLError

    if len(text) > LONGEST:
        raise ValueError(f"not read: {len(text):,} characters are more than settings have")
    _refuse_deep(text)
    left = MOST_NODES

    class Counting(Composer):
        def compose_node(self, parent: Any, index: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise ValueError(f"not read: more than {MOST_NODES:,} values")
            return super().compose_node(parent, index)

    reader = YAML(typ="safe", pure=True)
    reader.Composer = Counting
    try:
        return reader.compose(text)
    except (YAMLError, RecursionError) as error:
        raise ValueError(f"not YAML: {error}") from error


def _refuse_deep(text: str) -> None:
    """Lists inside each other cost the square of their number, each of them for every character."""
    depth = 0
    for brackets, found in enumerate(_BRACKETS.finditer(text), 1):
        depth += 1 if found[0] in "[{" else -1
        if depth > DEEPEST or brackets > MOST_BRACKETS:
            raise ValueError(
                f"not read: more than {DEEPEST} lists inside each other, or {MOST_BRACKETS:,} in all"
            )


def members(node: Any) -> dict[str, Any] | None:
    """The keys and value nodes of a mapping; None for anything else."""
    from ruamel.yaml.nodes import MappingNode

    if not isinstance(node, MappingNode):
        return None
    return {str(key.value): value for key, value in node.value}


def text_at(node: Any, dotted: str) -> str | None:
    """The text of the single value at `a.b.c`, or None where there is no such value."""
    from ruamel.yaml.nodes import ScalarNode

    for key in dotted.split("."):
        node = (members(node) or {}).get(key)
    return str(node.value) if isinstance(node, ScalarNode) else None


def leaves(root: Any) -> int:
    """How many single values a document holds."""
    from ruamel.yaml.nodes import ScalarNode

    found, seen, waiting = 0, set[int](), [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        inner = members(node)
        if isinstance(node, ScalarNode):
            found += 1
        else:
            waiting.extend(node.value if inner is None else inner.values())
    return found


#: The layouts that come with safekept.
SHIPPED = os.path.join(os.path.abspath(__file__).rsplit(os.sep, 2)[0], "home", "layouts")
#: The file of what holds for every layout, and is none itself.
COMMON = "common.toml"


class HomeUnknown(SafekeptError):
    code, exit_code = "home-unknown", 2


class HomeLocation(Protocol):
    """What is known of where an agent's home is; a whole layout knows it too."""

    @property
    def name(self) -> str: ...
    @property
    def variable(self) -> str: ...
    @property
    def variable_suffix(self) -> str: ...
    @property
    def default(self) -> str: ...
    @property
    def profiles(self) -> str: ...
    @property
    def strong(self) -> tuple[str, ...]: ...
    @property
    def weak(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class HomePlace:
    """The head of one layout."""

    name: str
    variable: str = ""  # the environment variable that moves the home
    variable_suffix: str = ""  # what the agent appends to that variable's value
    default: str = ""  # relative to the user's home directory
    profiles: str = ""  # the directory of profiles
    strong: tuple[str, ...] = ()  # one of these at the root proves a home
    weak: tuple[str, ...] = ()  # or two of these


def read_home_places(directories: Sequence[str] = ()) -> dict[str, HomePlace]:
    """Of the shipped layouts and of those in the user's directories; the same name replaces.

    A file that is no layout is passed over here: reading the layouts whole says what is wrong with it.
    """
    found: dict[str, HomePlace] = {}
    for directory in (SHIPPED, *directories):
        names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
        for name in names:
            if not name.endswith(".toml") or name == COMMON:
                continue
            place = _read(os.path.join(directory, name), shipped=directory == SHIPPED)
            found |= {place.name: place} if place is not None and place.name else {}
    return found


@cache
def shipped_place(name: str) -> HomePlace | None:
    """Of one shipped layout, whose file is called as it is; None where there is none."""
    if "/" in name or f"{name}.toml" == COMMON:
        return None
    return _read(os.path.join(SHIPPED, f"{name}.toml"), shipped=True)


def _read(path: str, *, shipped: bool) -> HomePlace | None:
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        text = read_regular(path).decode("utf-8")
        return _place(tomllib.loads(_head(text) if shipped else text))
    return None


def _head(text: str) -> str:
    """The tables of a shipped layout that are asked for here; to read all of them took twice as long. In a
    file of the user's a line of a longer value may look like a table."""
    first, *tables = text.split("\n[")
    return "\n[".join([first, *(table for table in tables if table.startswith(("markers]", "profiles]")))])


def _place(fields: Mapping[str, Any]) -> HomePlace:
    markers, profiles = fields.get("markers", {}), fields.get("profiles", {})
    words = [fields.get(key, "") for key in ("name", "variable", "variable_suffix", "default")]
    words.append(profiles.get("directory", "").strip("/"))
    marks = [tuple(markers.get(key, ())) for key in ("strong", "weak")]
    if not all(isinstance(word, str) for word in (*words, *marks[0], *marks[1])):
        raise TypeError("not the fields of a layout")
    return HomePlace(words[0], words[1], words[2], words[3], words[4], marks[0], marks[1])


def named_home(layout: HomeLocation, environment: Mapping[str, str], user_home: str) -> str:
    """The home as the variable or the layout names it: nothing is looked at, no link resolved."""
    value = environment.get(layout.variable, "").strip() if layout.variable else ""
    if value == "~" or value.startswith("~/"):
        value = user_home + value[1:]
    if value:
        return os.path.join(value, layout.variable_suffix).rstrip("/") or "/"
    return os.path.join(user_home, layout.default) if layout.default else ""


def locate_home(layout: HomeLocation, environment: Mapping[str, str], user_home: str) -> str:
    """Where the home is or would be, links resolved; it need not exist."""
    value = environment.get(layout.variable, "").strip() if layout.variable else ""
    default = os.path.join(user_home, layout.default) if layout.default else ""
    if not value:
        if not default:
            raise HomeUnknown(
                f"The layout `{layout.name}` has no usual place for a home",
                kept="Nothing changed",
                next_steps=("Name the directory with `--home PATH`",),
                layout=layout.name,
            )
        return os.path.realpath(default)
    return root_of(layout, named_home(layout, environment, user_home), default)


def root_of(layout: HomeLocation, path: str, default: str = "") -> str:
    """The home that a path belongs to: itself, or the one around it if it is a profile."""
    path = os.path.realpath(path)
    if not layout.profiles:
        return path
    if default:
        usual = os.path.realpath(default)
        if path == usual or path.startswith(usual + "/"):
            return usual
    parent = os.path.dirname(path)
    return os.path.dirname(parent) if os.path.basename(parent) == layout.profiles else path


def recognise_home(home: str, layouts: Mapping[str, HomeLocation]) -> str:
    """The name of the layout whose markers stand at the root of a directory, or ""."""
    best = ("", (0, 0))
    for layout in layouts.values():
        strong = sum(_present(home, marker) for marker in layout.strong)
        weak = sum(_present(home, marker) for marker in layout.weak)
        if (strong or weak >= 2) and (strong, weak) > best[1]:
            best = (layout.name, (strong, weak))
    return best[0]


def _present(home: str, marker: str) -> bool:
    path = os.path.join(home, marker)
    return os.path.isdir(path) if marker.endswith("/") else os.path.isfile(path)
