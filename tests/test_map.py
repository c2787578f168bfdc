"""The rooms and their doors: imports point down, outsiders use doors, folders stay small, only faces talk."""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator

import pytest

from support import source

TESTS = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(os.path.dirname(TESTS), "src", "safekept")
FLOORS = [  # top to bottom
    {"cli"},
    {"ui"},
    {"api"},
    {"integrations"},
    {"settings"},
    {"actions"},
    {"home", "vault", "archive", "checkpoints", "schedule", "keeper"},
    {"core"},
]
LEVEL = {room: depth for depth, rooms in enumerate(FLOORS) for room in rooms}
FACES = FLOORS[0] | FLOORS[1] | FLOORS[2] | FLOORS[3] | FLOORS[4]
#: Rooms whose insides are their own: outsiders import their top-level files and what their folders show.
WITH_DOORS = (
    "vault",
    "checkpoints",
    "home",
    "archive",
    os.path.join("core", "files"),
    os.path.join("core", "objects"),
    os.path.join("core", "platform"),
    os.path.join("core", "sqlite"),
)
MOST_MODULES, MOST_DOORS = 16, 12
#: Modules that run as a process of their own and speak to their parent over their streams.
PROCESSES = {os.path.join("core", "sqlite", "helper.py")}
#: Reads one variable, which is for tests only and must hold before any face is there.
SWITCHES = os.path.join("core", "platform", "system.py")
#: Reads commands again that were written down as text.
NEXT_STEP = os.path.join("core", "next_step.py")
#: Texts that stay as they are: what a file of the host says about itself, by which it is found later.
WRITTEN_DOWN = {os.path.join("schedule", "hosts", "call.py"), os.path.join("keeper", "units.py")}


@functools.cache
def modules(root: str = SOURCE) -> list[tuple[str, str, ast.Module]]:
    """Every module: its path below the root, its room, its syntax tree."""
    return [(path, path.split(os.sep)[0].removesuffix(".py"), tree) for path, tree in source.modules(root)]


@functools.cache
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


def packages(root: str = SOURCE) -> Iterator[tuple[str, list[str]]]:
    """Every folder of modules below the root, with its modules."""
    for directory, _, files in sorted(os.walk(root)):
        names = sorted(name for name in files if name.endswith(".py"))
        if names:
            yield os.path.relpath(directory, root), names


def doors_of(room: str, root: str = SOURCE) -> set[str]:
    """The modules of a room that others may import: its own, its top-level files, and its folders."""
    place = os.path.join(root, room)
    below = {
        name.removesuffix(".py")
        for name in os.listdir(place)
        if (name.endswith(".py") and name != "__init__.py")
        or os.path.exists(os.path.join(place, name, "__init__.py"))
    }
    head = "safekept." + room.replace(os.sep, ".")
    return {head, *(f"{head}.{name}" for name in below)}


def private_imports(root: str = SOURCE, rooms: tuple[str, ...] = WITH_DOORS) -> list[str]:
    """Imports from outside a room that do not go through one of its doors."""
    found = []
    known = {path.removesuffix(".py").removesuffix(os.sep + "__init__") for path, _, _ in modules(root)}
    for room in rooms:
        head, doors = "safekept." + room.replace(os.sep, "."), doors_of(room, root)
        for path, _, tree in modules(root):
            if path.startswith(room + os.sep):
                continue
            for name in sorted(imported_names(tree)):
                if not name.startswith(head + "."):
                    continue
                inside = name.removeprefix("safekept.").replace(".", os.sep) in known
                module = name if inside else name.rpartition(".")[0]
                if module not in doors:
                    found.append(f"{path} -> {module}")
    return found


def shown_names(path: str) -> tuple[set[str], set[str]]:
    """What the `__init__` of a folder imports for the type checker, and what its table of doors names."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    for_types = {
        f"{node.module}.{alias.name}"
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    table = {
        f"{key.value}.{name}"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "doors"
        for key, value in zip(call.args[1].keys, call.args[1].values, strict=True)  # type: ignore[attr-defined]
        for name in ast.literal_eval(value).split()
    }
    return for_types, table


@pytest.mark.parametrize("root", [SOURCE, TESTS], ids=["src", "tests"])
def test_no_folder_is_a_hall(root):
    assert {folder: len(names) for folder, names in packages(root) if len(names) > MOST_MODULES} == {}


def test_every_group_of_tests_is_called_as_a_room_or_a_group_of_commands():
    """So that one word leads from a command to its code and to its tests."""
    known = LEVEL.keys() | set(os.listdir(os.path.join(SOURCE, "actions"))) | {"transcripts"}
    folders = {
        f"{kind}/{name}"
        for kind in ("faults", "compat", "golden", "unit", "unit/actions")
        for name in os.listdir(os.path.join(TESTS, kind))
        if os.path.isdir(os.path.join(TESTS, kind, name)) and not name.startswith("__")
    }
    assert {one for one in folders if os.path.basename(one) not in known} == set()


@pytest.mark.parametrize("room", WITH_DOORS)
def test_a_room_has_few_doors(room):
    assert len(doors_of(room)) - 1 <= MOST_DOORS, sorted(doors_of(room))


def test_outsiders_come_in_by_a_door():
    assert private_imports() == []


def test_what_a_folder_shows_is_written_down_the_same_twice():
    seen = 0
    for folder, _ in packages():
        path = os.path.join(SOURCE, folder, "__init__.py")
        for_types, table = shown_names(path)
        if table:
            seen += 1
            assert for_types == table, folder
            modules_there = {name.removesuffix(".py") for name in os.listdir(os.path.dirname(path))}
            shadowed = {name.rpartition(".")[2] for name in table} & modules_there
            assert shadowed == set(), f"{folder}: a name that is also a module cannot be fetched"
    assert seen > 10


def test_folders_of_a_room_do_not_import_each_other_in_a_circle():
    for room in WITH_DOORS:
        head = "safekept." + room.replace(os.sep, ".")
        edges: dict[str, set[str]] = {}
        for path, _, tree in modules():
            if not path.startswith(room + os.sep) or path.count(os.sep) <= room.count(os.sep) + 1:
                continue
            folder = path.split(os.sep)[room.count(os.sep) + 1]
            package = ("safekept." + path.removesuffix(".py").replace(os.sep, ".")).split(".")[:-1]
            for (
                node
            ) in tree.body:  # what is imported when the module is; not for types, not inside a function
                if isinstance(node, ast.ImportFrom) and node.level:
                    base = package[: len(package) - node.level + 1] + (node.module or "").split(".")
                    name = ".".join(base)
                    if name.startswith(head + "."):
                        other = name.removeprefix(head + ".").split(".")[0]
                        if os.path.isdir(os.path.join(SOURCE, room, other)) and other != folder:
                            edges.setdefault(folder, set()).add(other)
        assert circles(edges) == [], room


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    found: list[list[str]] = []

    def go(node: str, way: list[str]) -> None:
        if node in way:
            found.append([*way[way.index(node) :], node])
            return
        for other in sorted(edges.get(node, ())):
            go(other, [*way, node])

    for start in sorted(edges):
        go(start, [])
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
        if path == SWITCHES:
            uses = uses[1:]
        if uses:
            found[path] = uses
    assert found == {}
    assert {path for path, _, _ in modules()} >= PROCESSES, "a process that is gone may not stay on the list"


#: Actions that look a variable of the caller up by its name, and why.
VARIABLES = {
    "actions/base/context.py": "here each gets a name and a type; a layout names the variable of its home",
    "actions/offsite/elsewhere.py": "where S3 and rclone would go is said by variables of theirs",
}


def test_actions_hand_the_environment_on_and_look_nothing_up_in_it():
    found = set()
    for path, room, tree in modules():
        read = re.compile(r"\bcaller\.environment(\[|\.get\()")
        if room == "actions" and read.search(ast.unparse(tree)):
            found.add(path)
    assert found == VARIABLES.keys()


def commands_as_text(tree: ast.Module) -> list[str]:
    """Commands of ours that are written out in strings; what only explains the code does not count."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        f"{node.value.strip()[:60]!r} in line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
        if re.search(r"`safekept(?: [a-z{-]|`)", node.value)
    ]


def test_below_the_faces_a_command_is_words_and_not_text():
    found = {}
    for path, room, tree in modules():
        if room in FACES or room not in LEVEL or path in WRITTEN_DOWN or path == NEXT_STEP:
            continue
        if texts := commands_as_text(tree):
            found[path] = texts
    assert found == {}, "name the command with NextStep(verb, arguments); the face spells it"
    assert commands_as_text(ast.parse('"""Like `safekept undo`."""')) == []
    assert commands_as_text(ast.parse('x = f"Then: `safekept undo {name}`"')) == [
        "'Then: `safekept undo' in line 1"
    ]


#: Who takes the facts of a line as they stand, and why. Everything else reads the class of the verb.
AS_WRITTEN = {
    "actions/base/operations/facts.py": "the reader itself",
    "actions/base/record.py": "adds who acted before the line is written",
    "actions/archives/output.py": "of a sealed archive they stand for the manifest that nobody can read",
    "actions/undo/operation.py": "`log ID` and the page show everything, also what no class knows",
}
#: What else has facts of that name: an error's own.
ERRORS = {"error", "refused", "self"}


def untyped_reads(tree: ast.Module) -> list[str]:
    """Reads of a line's facts by the name of one: `.facts.get("x")`, `.facts["x"]`, `in x.facts`."""
    found = []
    for node in ast.walk(tree):
        taken: list[ast.expr] = []
        if (isinstance(node, ast.Attribute) and node.attr == "get") or isinstance(node, ast.Subscript):
            taken = [node.value]
        elif isinstance(node, ast.Compare) and any(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
            taken = node.comparators
        found += [
            f"{ast.unparse(one)} in line {one.lineno}"
            for one in taken
            if isinstance(one, ast.Attribute) and one.attr == "facts"
            if not (isinstance(one.value, ast.Name) and one.value.id in ERRORS)
        ]
    return found


def test_a_line_of_the_journal_is_read_by_the_class_of_its_verb():
    """The type checker refuses any other way: to it, the facts of a line are an object and no mapping."""
    kept = [path for path, _, tree in modules() if "written_facts" in {*imported_last_names(tree)}]
    assert {*kept, "actions/base/operations/facts.py"} == AS_WRITTEN.keys()
    assert {path: reads for path, _, tree in modules() if (reads := untyped_reads(tree))} == {}
    journal = next(tree for path, _, tree in modules() if path == os.path.join("core", "journal.py"))
    record = next(node for node in journal.body if isinstance(node, ast.ClassDef) and node.name == "Record")
    types = {
        ast.unparse(one.target): ast.unparse(one.annotation)
        for one in record.body
        if isinstance(one, ast.AnnAssign)
    }
    assert types["facts"] == "object"


def imported_last_names(tree: ast.Module) -> set[str]:
    return {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_planted_reads_of_the_journal_are_named():
    planted = ast.parse('entry.facts.get("home")\nline.facts["a"]\n"b" in one.facts\nerror.facts["c"]')
    assert untyped_reads(planted) == [
        "line.facts in line 2",
        "one.facts in line 3",
        "entry.facts in line 1",
    ]


def names_twice(tree: ast.Module) -> list[str]:
    """Names that a module gives to two things at its top: whoever reads the first gets the second."""
    found: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stored = (one for target in targets for one in ast.walk(target))
            found += [
                one.id for one in stored if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
            ]
    return sorted({name for name in found if found.count(name) > 1})


def test_a_name_at_the_top_of_a_module_means_one_thing():
    assert {path: twice for path, _, tree in modules() if (twice := names_twice(tree))} == {}
    assert names_twice(ast.parse("A, B = 1, 2\nA = 3\ndef b(): pass\nclass b: pass")) == ["A", "b"]


def test_every_module_says_what_it_is_for():
    silent = [path for path, _, tree in modules() if tree.body and not ast.get_docstring(tree)]
    assert [path for path in silent if os.path.basename(path) != "__main__.py"] == []


#: Class names that stand in two rooms of one floor, with the reason. Rooms on a floor do not see each other,
#: so one cannot be mistaken for the other; on other floors a name stands once.
TWICE = {
    "Root": "of a project, of a landing",
    "Step": "of a rollback, of a landing",
}


def classes_twice() -> dict[str, list[str]]:
    """Public class names that are defined more than once on a floor, and where."""
    places: dict[tuple[int, str], list[str]] = {}
    for path, room, tree in modules():
        # The files of the plugin are copied into Hermes and stand for themselves there.
        if room not in LEVEL or os.path.join("hermes", "plugin") in path:
            continue
        floor = 0 if room in FACES else LEVEL[room]
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault((floor, node.name), []).append(path)
    return {name: found for (_, name), found in places.items() if len(found) > 1}


def test_no_class_name_stands_twice_on_a_floor_without_a_reason():
    found = classes_twice()
    assert {name: where for name, where in found.items() if name not in TWICE} == {}
    assert TWICE.keys() - found.keys() == set(), "a reason that is no longer needed may not stay"


#: Each names one class in the whole tree: what is wrong, the answer to it, what was done, what to do next.
ONE_CLASS = ("Finding", "Verdict", "Operation", "NextStep")


def test_the_words_of_the_verdict_name_one_class_each():
    defined = [
        node.name for _, _, tree in modules() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    assert {name: defined.count(name) for name in ONE_CLASS} == dict.fromkeys(ONE_CLASS, 1)


def test_no_room_is_called_utils():
    vague = {"utils", "util", "helpers", "common", "misc", "manager"}
    assert [path for path, _, _ in modules() if vague & set(path.removesuffix(".py").split(os.sep))] == []


def test_a_planted_private_import_is_named(tmp_path):
    for name in ("vault/care/checking", "vault/care/__init__", "vault/errors", "actions/a"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    lines = ["from safekept.vault.care.checking import check", "from safekept.vault.care import check"]
    (tmp_path / "actions" / "a.py").write_text(
        "\n".join([*lines, "from safekept.vault import errors"]) + "\n"
    )
    assert private_imports(str(tmp_path), ("vault",)) == ["actions/a.py -> safekept.vault.care.checking"]


@pytest.mark.parametrize(
    ("room", "line", "expected"),
    [
        ("vault", "from safekept.home import scan", ["vault/a.py -> home"]),
        ("home", "import safekept.settings", ["home/a.py -> settings"]),
        ("core", "def f():\n    from safekept.cli.main import cli", ["core/a.py -> cli"]),
        ("actions", "from safekept.home.scan.scanning import scan", []),
        ("cli", "from safekept.settings import load", []),
        ("cli", "from safekept.ui import server", []),
        ("ui", "from safekept.cli.console import Console", ["ui/a.py -> cli"]),
        ("integrations", "from safekept.ui import server", ["integrations/a.py -> ui"]),
        ("integrations", "from safekept.cli.console import Console", ["integrations/a.py -> cli"]),
        ("api", "from safekept.integrations import hosts", []),
        ("integrations", "from safekept.api import here", ["integrations/a.py -> api"]),
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
