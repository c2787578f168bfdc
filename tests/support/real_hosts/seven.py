"""A turn of seven changes, each of another kind, and the proof that every one of them can be taken back."""

from __future__ import annotations

import json
import os

from .deeds import Edit, Read, Shell, Step, Write
from .ground import Ground
from .host import RealHost
from .model import Tree


def seven_changes(directory: str) -> list[Step]:
    """Native edits and commands in turn; one file is ignored by git. `directory`: where the files are."""

    def at(name: str) -> str:
        return os.path.join(directory, name)

    return [
        [Read(at("src/app.py"))],
        [Edit(at("src/app.py"), "second", "SECOND")],
        [Write(at("lib/new.py"), "new\n")],
        [Read(at("local.cfg"))],
        [Edit(at("local.cfg"), "key=old", "key=new")],
        [Shell(f"mkdir -p {at('docs')} && mv {at('notes.md')} {at('docs/notes.md')}")],
        [Shell(f"find {at('data')} -delete")],
        [Shell(f"printf 'made\\0by hand' > {at('made.bin')} && chmod 755 {at('made.bin')}")],
        [Read(at("src/app.py"))],
        [Edit(at("src/app.py"), "third", "THIRD")],
        "That was all.",
    ]


def three_changes(directory: str) -> list[Step]:
    """An edit, a command that deletes, a new file."""
    app = os.path.join(directory, "src/app.py")
    return [
        [Read(app)],
        [Edit(app, "second", "SECOND")],
        [Shell(f"find {os.path.join(directory, 'data')} -delete")],
        [Write(os.path.join(directory, "lib/new.py"), "new\n")],
    ]


def points(ground: Ground, directory: str = "") -> list[dict[str, object]]:
    """Those that `rollback` numbers, newest first."""
    said = ground.safekept("rollback", "--json", directory=directory)
    assert said.returncode == 0, said.stdout + said.stderr
    return [one for one in json.loads(said.stdout)["checkpoints"] if one["number"] is not None]


def rolled_back(ground: Ground, number: int) -> Tree:
    said = ground.safekept("rollback", str(number))
    assert said.returncode == 0, said.stdout + said.stderr
    return ground.tree()


def all_come_back(ground: Ground, host: RealHost, scene: str) -> None:
    """Each change is a point; going back to it gives the tree as it truly was, and undo the tree of now."""
    states = ground.models[host.name].true_states(scene)
    now = ground.tree()
    found = points(ground)
    assert len(found) == len(states), [one["reason"] for one in found]
    for number, state in enumerate(reversed(states), 1):
        assert difference(rolled_back(ground, number), state) == {}, f"rollback {number}"
        said = ground.safekept("rollback", "--undo")
        assert said.returncode == 0, said.stdout + said.stderr
        assert difference(ground.tree(), now) == {}, f"undo of rollback {number}"


def difference(found: Tree, wanted: Tree) -> dict[str, tuple[object, object]]:
    """Path -> as it is, as it should be."""
    names = {*found, *wanted}
    return {
        one: (found.get(one), wanted.get(one)) for one in sorted(names) if found.get(one) != wanted.get(one)
    }
