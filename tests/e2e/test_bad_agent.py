"""A bad agent under each integration: after each of its actions, rollback restores the tree exactly.

Bytes, modes, times, links and empty directories come back wherever a checkpoint covers them; what does
not come back is what the rollback itself lists, and what the action says nobody may save. Undoing the
rollback brings the bad state back as exactly. By default every integration gets a part of the forty
actions, all of them together every action; `--soak hooks` gives every integration all forty.
"""

from __future__ import annotations

import contextlib
import random

import pytest

from support.bad_agent.deeds import ACTIONS
from support.bad_agent.doors import Door, ThroughCheckpoints, ThroughHelper, hook_doors
from support.bad_agent.far_doors import ThroughHermes, ThroughMcp, ThroughPython, ThroughRun
from support.bad_agent.project import below, differing, look

pytestmark = pytest.mark.real
DOORS = {
    door.name: door
    for door in (
        ThroughCheckpoints,
        *hook_doors(),
        ThroughHelper,
        ThroughHermes,
        ThroughMcp,
        ThroughRun,
        ThroughPython,
    )
}


def shares() -> dict[str, list]:
    """Every action once, dealt out to the doors."""
    order = list(ACTIONS)
    random.Random(7).shuffle(order)
    return {name: order[start :: len(DOORS)] for start, name in enumerate(DOORS)}


CHOSEN = [(name, action) for name, actions in shares().items() for action in actions]
REST = [(name, action) for name in DOORS for action in ACTIONS if (name, action) not in CHOSEN]


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    """Opens a door when it is first asked for; it stays open for the actions that follow."""
    opened: dict[str, Door] = {}
    with contextlib.ExitStack() as stack:

        def door(name: str) -> Door:
            if name not in opened:
                opened[name] = DOORS[name](str(tmp_path_factory.mktemp(name)))
                stack.callback(opened[name].close)
            return opened[name]

        yield door


def same_but_for(expected, found, allowed, listed=None, timeless=()):
    """What differs is allowed to, and is listed by name; of `timeless` directories the time may differ."""
    different = differing(expected, found)
    # The time of a directory is the time of what stays in it.
    timeless = {above(path) for path in different if below(path, allowed)}.union(timeless)
    wrong = {
        path: pair
        for path, pair in different.items()
        if not below(path, allowed) and not (path in timeless and _only_time(*pair))
    }
    assert wrong == {}
    if listed is not None:
        silent = [path for path in different if below(path, allowed) and not below(path, listed)]
        assert silent == [], f"not said by the rollback, which lists {listed}"


def above(path):
    return path.rpartition("/")[0] or "."


def _only_time(one, other):
    return one is not None and other is not None and one[0] == other[0] == "directory" and one[1] == other[1]


def without_times(facts):
    """What a person sees of a tree."""
    timed = ("directory", "file", "link")
    return {path: (*fact[:2], *fact[3:]) if fact[0] in timed else fact for path, fact in facts.items()}


def is_taken_back(door, action):
    door.fresh()
    before, earlier = look(door.project), door.points()
    door.act(action)
    bad = look(door.project)
    assert differing(before, bad), "the action did nothing"
    point = door.point()
    assert point not in earlier, "nothing was kept before the action"
    # Number 1 undoes the last change; a change of times alone has no number.
    seen = differing(without_times(before), without_times(bad))
    if door.full_only and action.paths == ("notes.tmp",):
        # Nobody named it, and a pass leaves it out: it cannot come back, and the rollback says so.
        assert "notes.tmp" in door.back(point).listed
        return
    went = door.back("1" if seen else point)
    assert went.target == point
    around = set()
    if door.named_only and action.paths:
        around = {above(path) for path in before.keys() | bad.keys()}
    same_but_for(before, look(door.project), action.stays, went.listed, around)
    if differing(bad, look(door.project)):  # a rollback that could change nothing, and said so, has no undo
        door.undo()
    # A project that was gone whole stays behind as an empty directory.
    same_but_for(bad or {".": look(door.project)["."]}, look(door.project), (), None, around)


@pytest.mark.parametrize(("name", "action"), CHOSEN, ids=lambda value: getattr(value, "name", value))
def test_what_a_bad_agent_did_is_taken_back(name, action, doors):
    is_taken_back(doors(name), action)


@pytest.mark.soak("hooks")
@pytest.mark.parametrize(("name", "action"), REST, ids=lambda value: getattr(value, "name", value))
def test_whatever_a_bad_agent_did_is_taken_back(name, action, doors):
    is_taken_back(doors(name), action)


def test_the_last_burst_of_a_run_is_taken_back_alone(doors):
    """An agent without hooks did two things: number 1 undoes the second, the first point both."""
    door, known = doors("run"), {action.name: action for action in ACTIONS}
    door.fresh()
    before = look(door.project)
    door.act(known["sed -i over all sources"], known["rm -rf of the sources"])
    bad = look(door.project)
    assert not any(below(path, ["src"]) for path in bad)
    door.back("1")
    between = look(door.project)
    changed = {path for path in before if path.startswith("src/") and path.endswith(".py")}
    assert set(differing(before, between)) == changed - {"src/deep/inner/leaf.py"} | {"src"}
    assert all(between[path][3] != before[path][3] for path in changed - {"src/deep/inner/leaf.py"})
    door.undo()
    same_but_for(bad, look(door.project), ())
    door.back(door.point())
    same_but_for(before, look(door.project), ())


#: Can be done one after another in any order: none needs what another one takes away.
IN_A_ROW = (
    "overwrite an ignored file",
    "make a file in directories that were not there",
    "overwrite a private file",
    "overwrite a file with a foreign name",
    "remove a tree with shutil",
    "delete the rows of a database",
    "append to files",
    "truncate the binary files",
    "generate two thousand files",
    "unpack an archive over the tree",
    "hide the traces in .gitignore",
    "chmod -R",
    "touch everything",
)


def a_session_is_taken_back(door, seed, count):
    """One bad action after another; then back, action by action, and each time everything is exact."""
    chance, known = random.Random(seed), {action.name: action for action in ACTIONS}
    chosen = [known[name] for name in chance.sample(IN_A_ROW, count)]
    door.fresh()
    states, points = [], []
    for action in chosen:
        states.append(look(door.project))
        door.act(action)
        points.append(door.point())
    assert len(set(points)) == count
    for number in reversed(range(count)):
        if number and chance.random() < 0.3:
            continue  # several actions at once
        went = door.back(points[number])
        allowed = [path for action in chosen for path in action.stays]
        counted = []
        if any(action.name.startswith("hide the traces") for action in chosen[:number]):
            # Rules that stood when the point was taken hold for its pass: what they hide is counted and
            # not named, since nobody knows whether it changed. The points before have it.
            counted.append("src/untracked.py")
        same_but_for(states[number], look(door.project), allowed + counted, (*went.listed, *counted))


def test_a_session_of_bad_actions_is_taken_back_one_by_one(doors):
    a_session_is_taken_back(doors("checkpoints"), 7, 6)


@pytest.mark.soak("hooks")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["checkpoints", "hook claude-code", "hermes plugin"])
def test_any_session_of_bad_actions_is_taken_back_one_by_one(doors, name, seed):
    a_session_is_taken_back(doors(name), seed, 13)


def test_there_are_forty_actions_of_every_kind():
    assert len(ACTIONS) == len({action.name for action in ACTIONS}) == 40
    assert {action.kind for action in ACTIONS} == {"edit", "shell", "patch", "code"}
    assert {action for _, action in CHOSEN} == set(ACTIONS), "the default run leaves one out"
