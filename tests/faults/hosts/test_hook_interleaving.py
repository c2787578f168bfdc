"""Commands that overlap, sessions that overlap, marks that come late or never: whose change is it?

An agent's turn goes back whole, whatever ran beside what; what the user did before and after it stays.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable

import pytest

from safekept.actions.projects.rollback import RollbackRequest, rollback
from safekept.integrations import marks
from safekept.integrations.hosts import handle
from safekept.integrations.places import Place
from support.hosts.recorded_hosts import User, new_user


class Agents:
    """One or two sessions in one project; `place.later` waits until somebody says so, as in a busy helper."""

    def __init__(self, user: User, chance: random.Random, sessions: str, helped: bool) -> None:
        self.user, self.chance, self.sessions = user, chance, sessions
        self.waiting: dict[object, Callable[[], None]] = {}
        self.place = Place.load(user.environment, self._later if helped else None)
        self.count, self.running, self.turn = 0, [], 0

    def _later(self, key: object, work: Callable[[], None]) -> None:
        self.waiting.pop(key, None)
        self.waiting[key] = work

    def settle(self, share: float = 1.0) -> None:
        for key in list(self.waiting):
            if self.chance.random() < share:
                self.waiting.pop(key)()

    def tell(self, session: str, name: str, tool: str = "", **given: str) -> None:
        said = {"session_id": session, "prompt_id": f"{session}{self.turn}", "cwd": self.user.project}
        said |= {"hook_event_name": name, "tool_name": tool, "tool_input": given}
        assert handle("claude-code", json.dumps(said).encode(), self.place, self.user.project).exit == 0

    def change(self) -> str:
        name = self.chance.choice("abcdef")
        self.count += 1
        self.user.change({name: f"{name}{self.count}"})
        return name

    def step(self) -> None:
        session, what = self.chance.choice(self.sessions), self.chance.random()
        if what < 0.4:
            self.tell(session, "PreToolUse", "Bash", command="x")
            self.running.append(session)
            if self.chance.random() < 0.6:
                self.change()
        elif what < 0.75 and self.running:
            if self.chance.random() < 0.7:
                self.change()
            session = self.running.pop(self.chance.randrange(len(self.running)))
            self.tell(session, "PostToolUse", "Bash", command="x")
        else:
            name = self.chance.choice("abcdef")
            self.tell(session, "PreToolUse", "Write", file_path=os.path.join(self.user.project, name))
            self.count += 1
            self.user.change({name: f"{name}{self.count}"})
        if self.chance.random() < 0.4:
            self.settle(0.7)

    def whole_turn(self) -> None:
        self.turn += 1
        for _ in range(self.chance.randint(2, 9)):
            self.step()
        for session in self.running:
            self.tell(session, "PostToolUse", "Bash", command="x")
        for session in self.sessions:
            self.tell(session, "Stop")
        self.running = []
        self.settle()


def files(user: User) -> dict[str, str]:
    found = {}
    for name in set(os.listdir(user.project)) - {".git"}:
        with open(os.path.join(user.project, name)) as file:
            found[name] = file.read()
    return found


def one_storm(directory: str, seed: int, sessions: str, helped: bool) -> None:
    marks._orders.clear()
    chance = random.Random(seed)
    user = new_user(directory, {name: f"{name}0" for name in ("a", "b", "c", "d", "e", "f", "mine", "late")})
    agents = Agents(user, chance, sessions, helped)
    for number in range(chance.randint(1, 3)):
        if number and chance.random() < 0.5:
            user.change({"mine": f"mine {number}"})
        before = files(user)
        agents.whole_turn()
    user.change({"late": "by the user"})
    turns = {f"{session}{agents.turn}" for session in agents.sessions}
    points = [one for one in user.points() if one.turn in turns]
    if not points:
        assert files(user) == {
            **before,
            "late": "by the user",
        }
        return
    request = RollbackRequest(user.project, points[-1].id, settings=user.place().policy.take)
    rollback(user.place().context, request)
    assert files(user) == {**before, "late": "by the user"}, f"seed {seed}"


@pytest.mark.parametrize("helped", [True, False], ids=["one helper", "a process for each hook"])
@pytest.mark.parametrize("sessions", ["s", "st"])
@pytest.mark.parametrize("seed", [7, 37, 75])
def test_a_turn_goes_back_whole_and_the_users_edits_stay(seed, sessions, helped, tmp_path):
    one_storm(str(tmp_path), seed, sessions, helped)


@pytest.mark.soak("hooks")
def test_four_hundred_turns_go_back_whole(tmp_path):
    for seed in range(100):
        for sessions, helped in (("s", True), ("s", False), ("st", True), ("st", False)):
            one_storm(str(tmp_path / f"{seed}{sessions}{helped}"), seed, sessions, helped)
