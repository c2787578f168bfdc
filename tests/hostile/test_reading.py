"""What is read in a home or a project is read through `core.regular`: no plain `open` waits at a pipe."""

from __future__ import annotations

import ast
import os

from support.places import CHECKOUT

#: Rooms that look into what belongs to others.
ROOMS = ("home", "settings", "checkpoints/scan", "checkpoints/store/metadata.py", "integrations/connecting")
#: What they open of our own, or of the system.
OWN = {
    "home/landing/record.py": "our own record, by a descriptor that was checked",
    "home/landing/stage/proving.py": "what we staged ourselves",
    "home/landing/swap/in_place_restore.py": "the header of a database that the landing looked at",
    "home/landing/swap/open_databases.py": "the table of mounts",
    "checkpoints/scan/cache.py": "our own cache",
    "checkpoints/scan/trust.py": "our own record of packs",
}


def sources():
    for room in ROOMS:
        top = os.path.join(CHECKOUT, "src", "safekept", *room.split("/"))
        if os.path.isfile(top):
            yield room, top
        for directory, _, names in os.walk(top):
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(directory, name)
                    yield os.path.relpath(path, os.path.join(CHECKOUT, "src", "safekept")), path


def plain_opens(path):
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]


def test_nothing_of_others_is_opened_by_a_plain_open():
    found = {name: lines for name, path in sources() if (lines := plain_opens(path))}
    assert found.keys() <= OWN.keys(), {name: found[name] for name in found.keys() - OWN.keys()}
