"""The rooms and their one-way doors: an import may only point down, and only faces talk to people."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

import pytest

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src", "safekept")
FLOORS = [  # top to bottom
    {"cli", "web"},
    {"integrations", "api"},
    {"settings"},
    {"actions"},
    {"home", "vault", "archive", "checkpoints", "schedule"},
    {"core"},
]
LEVEL = {room: depth for depth, rooms in enumerate(FLOORS) for room in rooms}
FACES = FLOORS[0] | FLOORS[1] | FLOORS[2]
#: Modules that run as a process of their own and speak to their parent over their streams.
PROCESSES = {os.path.join("core", "sqlite", "helper.py")}


def modules(root: str = SOURCE) -> Iterator[tuple[str, str, ast.Module]]:
    """Every module: its path below the root, its room, its syntax tree."""
    for directory, _, files in sorted(os.walk(root)):
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.relpath(os.path.join(directory, name), root)
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    yield path, path.split(os.sep)[0].removesuffix(".py"), ast.parse(file.read(), path)


def imported_names(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def upward_imports(root: str = SOURCE) -> list[str]:
    found = []
    for path, room, tree in modules(root):
        rooms = {name.split(".")[1] for name in imported_names(tree) if name.startswith("safekept.")}
        for other in sorted((rooms & LEVEL.keys()) - {room}):
            if room in LEVEL and LEVEL[other] <= LEVEL[room]:
                found.append(f"{path} -> {other}")
    return found


def escaping_relative_imports(root: str = SOURCE) -> list[str]:
    """A relative import may not leave its room: across rooms the other room is named in full."""
    found = []
    for path, _, tree in modules(root):
        depth = path.count(os.sep)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level > depth:
                found.append(f"{path} line {node.lineno}")
    return found


def talks_to_people(tree: ast.Module) -> list[str]:
    """Uses of print, input, the environment and the standard streams."""
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"print", "input"}
        ):
            found.append(f"{node.func.id}() in line {node.lineno}")
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "os" and node.attr in {"environ", "environb", "getenv", "getenvb"}:
                found.append(f"os.{node.attr} in line {node.lineno}")
            if node.value.id == "sys" and node.attr in {"stdin", "stdout", "stderr"}:
                found.append(f"sys.{node.attr} in line {node.lineno}")
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            taken = {alias.name for alias in node.names} & {"environ", "environb", "getenv", "getenvb"}
            found += [f"os.{name} in line {node.lineno}" for name in sorted(taken)]
    return found


def test_imports_point_down():
    assert upward_imports() == []


def test_relative_imports_stay_in_their_room():
    assert escaping_relative_imports() == []


def test_every_module_belongs_to_a_floor():
    rooms = {room for _, room, _ in modules()}
    assert rooms - LEVEL.keys() - {"__init__", "__main__"} == set()


def test_only_faces_talk_to_people_or_read_the_environment():
    found = {}
    for path, room, tree in modules():
        if room in FACES or room not in LEVEL:
            continue
        uses = talks_to_people(tree)
        if path in PROCESSES:
            uses = [use for use in uses if not use.startswith("sys.")]
        if uses:
            found[path] = uses
    assert found == {}
    assert {path for path, _, _ in modules()} >= PROCESSES, "a process that is gone may not stay on the list"


def test_every_module_says_what_it_is_for():
    silent = [path for path, _, tree in modules() if tree.body and not ast.get_docstring(tree)]
    assert [path for path in silent if os.path.basename(path) != "__main__.py"] == []


def test_no_room_is_called_utils():
    vague = {"utils", "util", "helpers", "common", "misc", "manager"}
    assert [path for path, _, _ in modules() if vague & set(path.removesuffix(".py").split(os.sep))] == []


@pytest.mark.parametrize(
    ("room", "line", "expected"),
    [
        ("vault", "from safekept.home import scan", ["vault/a.py -> home"]),
        ("home", "import safekept.settings", ["home/a.py -> settings"]),
        ("core", "def f():\n    from safekept.cli.main import cli", ["core/a.py -> cli"]),
        ("actions", "from safekept.home.scan import scan", []),
        ("cli", "from safekept.settings import load", []),
        ("cli", "from safekept.web import app", ["cli/a.py -> web"]),
        ("integrations", "from safekept.cli.console import Console", ["integrations/a.py -> cli"]),
        ("settings", "from safekept.integrations import hosts", ["settings/a.py -> integrations"]),
    ],
)
def test_a_planted_import_is_named(tmp_path, room, line, expected):
    (tmp_path / room).mkdir()
    (tmp_path / room / "a.py").write_text(line + "\n")
    assert upward_imports(str(tmp_path)) == expected


def test_planted_talk_is_named():
    planted = ast.parse(
        "import os, sys\nprint(os.environ['A'])\nsys.stderr.write('x')\nfrom os import getenv"
    )
    assert sorted(talks_to_people(planted)) == [
        "os.environ in line 2",
        "os.getenv in line 4",
        "print() in line 2",
        "sys.stderr in line 3",
    ]
