"""What is given another mode, time or owner is what has the name, and never what a link there leads to.

Every place in the code that does so is looked at. It says `follow_symlinks=False`, it has the file open, it
goes by the kernel's own name of what is open (`name_of`), or it has a reason below. Modes are changed
by `core/files/tree.py::change_mode`, which can do it without following.
"""

from __future__ import annotations

import ast
import os
from collections import Counter

import pytest

from safekept.core.files.tree import change_mode
from support.places import CHECKOUT

SOURCE = os.path.join(CHECKOUT, "src", "safekept")
CALLS = {"chmod", "utime", "chown", "truncate"}
#: Why such a call is right, and how many of them a file has.
REASONS = {
    "a directory of ours, 0700, in which nobody else can put a link: root refuses those of somebody else": {
        "actions/drill/checks/databases.py": 1,
        "actions/drill/checks/files.py": 2,
        "actions/drill/checks/interpreter.py": 1,
        "actions/drill/place.py": 1,
        "actions/restoring/rebuild_build.py": 5,
        "actions/restoring/rebuild_target.py": 3,
        "checkpoints/rollback/unpacking.py": 2,
        "checkpoints/store/repositories/recreating.py": 1,
        "integrations/helper/server.py": 1,
    },
    "in the area of a landing, 0700, by whom the home belongs to": {
        "home/landing/area.py": 1,
        "home/landing/stage/proving.py": 3,
        "home/landing/stage/rebuilding.py": 4,
        "home/landing/swap/in_place_restore.py": 1,
    },
    "an open directory, or the kernel's own name of it": {
        "checkpoints/rollback/project_tree.py": 1,
        "home/landing/swap/swap.py": 2,
    },
    "the one place that changes modes, where a system has no other way": {"core/files/tree.py": 1},
    "a key that whoever runs the command named, and may mean a link": {"actions/vault/keys/key_file.py": 1},
    "root's own names all the way": {
        "actions/keeper/install.py": 3,
        "cli/commands/keeper/serve.py": 3,
        "core/owner/handover.py": 1,
    },
    "the socket of the keeper, under a name that it has just made in a directory of its own": {
        "keeper/server.py": 1
    },
    "what the demo made a moment ago": {"cli/commands/demo/home.py": 4},
}


def followers(text: str) -> list[int]:
    """The lines of calls that would change what a link leads to."""
    tree = ast.parse(text)
    open_files = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(("os.open(", "name_of("))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    open_files |= {
        node.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.arg) and node.annotation is not None and ast.unparse(node.annotation) == "int"
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CALLS
        and ast.unparse(node.func.value) == "os"
        and not _harmless(node, open_files)
    ]


def _harmless(call: ast.Call, open_files: set[str]) -> bool:
    if any(one.arg == "follow_symlinks" and ast.unparse(one.value) == "False" for one in call.keywords):
        return True
    first = call.args[0]
    return isinstance(first, ast.Name) and first.id in open_files


def test_every_change_that_could_be_led_elsewhere_has_a_reason():
    found: Counter[str] = Counter()
    lines = {}
    for directory, _, names in os.walk(SOURCE):
        for name in (name for name in names if name.endswith(".py")):
            path = os.path.join(directory, name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if any(f"os.{call}(" in text for call in CALLS):
                relative = os.path.relpath(path, SOURCE)
                lines[relative] = followers(text)
                found[relative] = len(lines[relative])
    known = Counter({name: count for files in REASONS.values() for name, count in files.items()})
    assert not found - known, {name: lines[name] for name in found - known}
    assert not known - found, f"fewer than the list says: shorten it: {known - found}"


@pytest.mark.parametrize(
    ("line", "follows"),
    [
        ("os.chmod(path, 0o600)", True),
        ("os.chmod(name, 0o600, dir_fd=parent)", True),
        ("os.utime(path, ns=(1, 1), follow_symlinks=follow)", True),
        ("os.chown(f'{home}/x', 1, 1)", True),
        ("os.truncate(path, 0)", True),
        ("os.utime(name, ns=(1, 1), dir_fd=parent, follow_symlinks=False)", False),
        ("descriptor = os.open(path, flags)\nos.utime(descriptor)", False),
        ("def one(descriptor: int):\n    os.utime(descriptor)", False),
        ("place = name_of(descriptor)\nos.chmod(place, 0o600)", False),
        ("os.fchmod(descriptor, 0o600)", False),
    ],
)
def test_a_change_that_follows_is_found(line: str, follows: bool):
    assert bool(followers(f"import os\n{line}\n")) is follows


@pytest.mark.needs("symlinks", "it makes symbolic links")
def test_a_mode_is_given_to_what_has_the_name_and_not_to_what_a_link_leads_to(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.write_text("somebody's")
    outside.chmod(0o640)
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "file").write_text("ours")
    (inside / "file").chmod(0o000)
    parent = os.open(inside, os.O_RDONLY | os.O_DIRECTORY)
    try:
        change_mode(parent, "file", 0o711)
        with pytest.raises(OSError, match=r"not supported|Too many levels"):
            change_mode(parent, "link", 0o777)
        with pytest.raises(FileNotFoundError):
            change_mode(parent, "gone", 0o777)
    finally:
        os.close(parent)
    assert (inside / "file").stat().st_mode & 0o7777 == 0o711
    assert outside.stat().st_mode & 0o7777 == 0o640
