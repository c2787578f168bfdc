"""The figures of `workshop/measure`: what is a line of code, and what a command is said to import."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType

WORKSHOP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "workshop")


def loaded(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(name, os.path.join(WORKSHOP, f"{name}.py"))
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


def put(root: object, name: str, text: str) -> None:
    path = os.path.join(str(root), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


ONE = '''"""What it is for,
in two lines."""

import os  # a comment
from sys import (
    path,
    argv,
)


# alone
class Thing:
    """Said."""

    text = """a text
    is code"""
'''


def test_only_lines_that_say_something_are_counted(tmp_path):
    put(tmp_path, "vault/one.py", ONE)
    put(tmp_path, "home/two.py", "class Thing:\n    pass\n\n\nclass Other:\n    pass\n")
    put(tmp_path, "core/three.py", "class Thing:\n    pass\n")
    put(tmp_path, "vault/four.py", "")
    found = loaded("figures_source").source_figures(str(tmp_path))
    assert (found["modules"], found["code_lines"], found["import_lines"]) == (4, 8 + 4 + 2, 5)
    assert (found["folders"], found["files_per_folder_largest"]) == (3, 2)
    # Vault and home are one floor, core is another.
    assert found["class_names_twice_by_floor"] == {"rooms": ["Thing"]}


def test_what_a_command_imports_is_what_it_really_takes_in():
    start = loaded("figures_start")
    with start.places([os.path.dirname(WORKSHOP)]) as (place,):
        log, hook = place.imports("log"), place.imports("hook")
        place.before("rollback 1")
        rollback = place.imports("rollback 1")
    assert not log["rooms"].keys() & {"vault", "checkpoints"} and log["rooms"]["core"] > 3
    assert "cli" not in hook["rooms"] and hook["rooms"]["checkpoints"] > 20
    assert rollback["rooms"]["checkpoints"] > 20 and rollback["modules"] >= sum(rollback["rooms"].values())


def test_a_rollback_in_a_project_loads_no_module_of_vault_or_home():
    start = loaded("figures_start")
    with start.places([os.path.dirname(WORKSHOP)]) as (place,):
        place.before("rollback 1")
        for command in ("rollback 1 --dry-run", "rollback 1", "rollback --undo"):
            rooms = place.imports(command)["rooms"]
            assert not rooms.keys() & {"vault", "home"}, (command, rooms)


def test_a_push_that_sends_nothing_hidden_loads_no_module_of_checkpoints():
    start = loaded("figures_start")
    with start.places([os.path.dirname(WORKSHOP)]) as (place,):
        table = f'[[destination]]\nname = "far"\nurl = "file:{place.root}/far"\nsame_disk = true\n'
        put(place.root, "user/.config/safekept/config.toml", table)
        push = place.imports("push --dry-run far")
    assert "checkpoints" not in push["rooms"] and push["rooms"]["vault"] > 20, push
    assert push["modules"] < 160 and push["every"] < 325, push


#: The most modules of safekept that each takes in, and of everything. A command that needs another one may
#: have it; one that only might need it imports it where it is used. Those of `core/platform` are
#: small, and some of them are in every command.
BUDGETS = {
    "status": (221, 372),
    "rollback": (120, 254),
    "rollback 1 --dry-run": (129, 262),
    "doctor": (249, 440),
    "snapshot list": (104, 247),
    "log": (56, 167),
}


def test_no_command_imports_more_than_its_budget():
    start = loaded("figures_start")
    with start.places([os.path.dirname(WORKSHOP)]) as (place,):
        place.before("rollback 1")
        found = {command: place.imports(command) for command in BUDGETS}
    counts = {command: (one["modules"], one["every"]) for command, one in found.items()}
    over = {
        command: (count, found[command]["rooms"])
        for command, count in counts.items()
        if count[0] > BUDGETS[command][0] or count[1] > BUDGETS[command][1]
    }
    rooms = found["snapshot list"]["rooms"].keys()
    assert not rooms & {"checkpoints", "archive", "integrations"}, "a list is read, and nothing else"
    assert not [command for command, one in found.items() if "ui" in one["rooms"]], (
        "nobody waits for the page"
    )
    assert over == {}, "more modules (of safekept, of everything) than the budget allows"
    assert all(count[0] > 20 for count in counts.values()), counts
