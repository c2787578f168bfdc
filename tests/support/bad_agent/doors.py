"""The doors through which the bad agent is let in: one for each integration.

A door lets an action happen the way its host does (`act`) and goes back and forth the way its user
does. Each has a user, a data directory and a project of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import dataclass, replace
from typing import Any

from conftest import run_safekept
from safekept.actions.projects.project import checkpoint_directory
from safekept.actions.projects.rollback import RollbackRequest, checkpoint_store, rollback
from safekept.checkpoints.checkpoints import Checkpoints
from safekept.integrations.calls import Call
from safekept.integrations.entry import helper_command
from safekept.integrations.helper import client
from safekept.integrations.helper.code import code_on_disk
from safekept.integrations.hosts.cursor import PERMISSION
from support.bad_agent.deeds import Action
from support.bad_agent.hosts import HOSTS, Speech
from support.bad_agent.project import hold, make_project
from support.home.database_holder import Holder
from support.users.contexts import throwaway


@dataclass(frozen=True)
class Went:
    """What a rollback says of itself."""

    target: str
    complete: bool
    listed: tuple[str, ...]  # everything that it says it did not bring back, and why not


class Door:
    """Goes back by the action that every face calls."""

    name = ""
    named_only = False  # whether the point of an edit may know the named files only
    full_only = False  # whether nothing is ever named, so that ignored files are not covered

    def __init__(self, place: str) -> None:
        self.place = place
        self.context = throwaway(place)
        self.project = ""
        self.holder: Holder | None = None
        self._serial = 0

    def fresh(self) -> str:
        """A new victim; the one before stays where it is."""
        self.release()
        self._serial += 1
        ground = os.path.join(self.place, f"ground-{self._serial}")
        os.makedirs(ground)
        self.project = make_project(ground)
        self.holder = hold(self.project)
        return self.project

    def release(self) -> None:
        if self.holder is not None:
            self.holder.close()
        self.holder = None

    def close(self) -> None:
        self.release()

    # ── what a host does ──

    def act(self, action: Action) -> None:
        raise NotImplementedError

    # ── what its user does ──

    def points(self) -> list[str]:
        """All points before an action, oldest first."""
        with checkpoint_store(self.context) as store:
            found = [point for point in store.checkpoints(self.project) if point.numbered]
        return sorted(point.id for point in found)

    def point(self) -> str:
        """The point of the last action."""
        return self.points()[-1]

    def back(self, target: str) -> Went:
        return self._roll(target=target)

    def undo(self) -> Went:
        return self._roll(undo=True)

    def _roll(self, **words: object) -> Went:
        request = replace(RollbackRequest(self.project), **words)  # type: ignore[arg-type]
        done = rollback(self.context, request).rolled_back
        assert done is not None
        return went(done.as_dict())


def went(said: dict) -> Went:
    names = [item["path"] for part in ("left", "not_covered", "gone") for item in said[part]]
    return Went(said["target"]["id"], said["complete"], tuple(names))


class ThroughCheckpoints(Door):
    """The library's own door, without any host."""

    name = "checkpoints"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.checkpoints = Checkpoints(checkpoint_directory(self.context))
        self.turn = 0

    def act(self, action: Action) -> None:
        self.turn += 1
        self.checkpoints.new_turn("session", f"turn-{self.turn}")
        if action.kind in ("edit", "patch"):
            done = self.checkpoints.before(action.paths, f"before {action.kind}", directory=self.project)
        else:
            done = self.checkpoints.before([self.project], f"before {action.kind}", shell=True)
        assert not done.failures and not done.skipped, (done.failures, done.skipped)
        action.perform(self.project)
        after = self.checkpoints.after(wait=True)
        assert os.path.isdir(self.project) is not bool(after.failures), after.failures


class ThroughHooks(Door):
    """The hook program of one host: a process for every event, as the host starts it."""

    host = ""
    helper = True

    def __init__(self, place: str) -> None:
        super().__init__(place)
        keep = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        self.environment = {**keep, "HOME": self.context.places.user_home, "LANG": "C.UTF-8"}
        if not self.helper:
            self.environment["SAFEKEPT_HELPER"] = "0"
        self.turn = 0

    def act(self, action: Action) -> None:
        self.turn += 1
        speech = Speech("session", f"turn-{self.turn}", self.project)
        before, after = HOSTS[self.host](speech, action)
        for event in before:
            answer = self.said(event)
            # The action before was rolled back, and the agent hears of it with the next prompt.
            told = self.turn > 1 and event is before[0] and "safekept: since your last turn" in answer
            assert answer in ("", "{}") or told, f"a hook is silent on success: {answer}"
        action.perform(self.project)
        for event in after:
            self.said(event)

    def said(self, event: dict[str, object]) -> str:
        """What the hook answers; it never fails, whatever happened to the project."""
        there = os.path.isdir(self.project)
        done = self.run("hook", self.host, input=json.dumps(event), cwd=self.project if there else "/")
        # Cursor takes any other answer to these for a permission (docs/reference/hooks.md).
        decides = self.host == "cursor" and event["hook_event_name"] in PERMISSION
        assert done.returncode == (1 if decides else 0), done.stderr
        assert not there or done.stderr == "" or decides, done.stderr
        return done.stdout.strip()

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return run_safekept(*words, environment=self.environment, **{"stdin": None, **options})

    def close(self) -> None:
        super().close()
        self.run("helper", "stop", input="")


def hook_doors() -> list[type[Door]]:
    """One for each host, and one that has no helper."""
    made = [
        type(
            f"Through{host}",
            (ThroughHooks,),
            {
                "name": f"hook {host}",
                "host": host,
                "named_only": host == "cursor",  # its prompt takes the full point of the turn
            },
        )
        for host in HOSTS
    ]
    alone = {"name": "hook claude-code without helper", "host": "claude-code", "helper": False}
    return [*made, type("WithoutHelper", (ThroughHooks,), alone)]


class ThroughHelper(Door):
    """The helper's own request, as plugins ask it."""

    name = "helper"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.context.places.user_home}
        self.directory = client.helper_directory(self.environment)
        assert client.start(helper_command(), self.directory, self.environment, wait=60.0)
        self.turn = 0

    def ask(self, kind: str, **words: Any) -> dict[str, Any]:
        call = Call(kind, "hermes", session="session", turn=f"turn-{self.turn}", **words)
        header = client.request("call", self.environment, code=code_on_disk(), cwd=self.place)
        body = json.dumps(call.as_dict()).encode()
        answer = client.ask(self.directory, header, body, 120.0)
        if answer is None or "stale" in answer[0]:  # of other code than is on the disk now
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self.directory, "started"))
            assert client.start(helper_command(), self.directory, self.environment, wait=60.0)
            answer = client.ask(self.directory, header, body, 120.0)
        assert answer is not None and answer[0].get("exit") == "0", answer
        return json.loads(answer[1])  # type: ignore[no-any-return]

    def act(self, action: Action) -> None:
        self.turn += 1
        self.ask("turn", directory=self.project)
        shell = action.kind in ("shell", "code")
        where = {"tool": action.kind, "shell": shell, "directory": self.project}
        outcome = self.ask("before", paths=() if shell else action.paths, **where)
        assert outcome["checkpoints"] and not outcome.get("failures") and not outcome.get("skipped"), outcome
        action.perform(self.project)
        self.ask("after", **where)
        self.ask("end", directory=self.project)

    def close(self) -> None:
        super().close()
        client.ask(self.directory, client.request("stop", self.environment, code=code_on_disk()), b"", 60.0)
