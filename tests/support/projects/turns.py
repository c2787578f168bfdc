"""An agent that works in turns: in several projects and in its home, as its hooks would have it kept."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping

from safekept.actions.base.context import UserContext
from safekept.actions.base.own_places import own_places
from safekept.actions.projects.hidden.record import keep_look
from safekept.actions.projects.home_points.take import before_home_change
from safekept.actions.projects.points import Points
from safekept.actions.projects.project import checkpoint_directory
from safekept.actions.projects.turns.outcome import TurnRollback
from safekept.actions.undo.undo import Undone, UndoRequest, take_back
from safekept.checkpoints.checkpoints import Checkpoints
from safekept.checkpoints.scan.hidden_left import HiddenLimits
from safekept.checkpoints.take import TakeSettings
from support.home.homes import make_hermes_home
from support.projects.checkpoints import put
from support.projects.rollbacks import Tree, tree_of
from support.users.contexts import throwaway


def settings_for(context: UserContext) -> TakeSettings:
    """With what git hides."""
    return TakeSettings(hidden=HiddenLimits(avoid=tuple(own_places(context))), durable=False)


class Agent:
    """One session. Each turn changes files in some projects, and some files of its home."""

    def __init__(self, context: UserContext, session: str = "session", home: str = "") -> None:
        self.context, self.session, self.home = context, session, home

    def turn(
        self,
        name: str,
        changes: Mapping[str, Mapping[str, str | None]],
        at_home: Mapping[str, str] | None = None,
        *,
        ends: bool = True,
    ) -> None:
        """`changes`: project -> path -> text, None for a file that goes."""
        with self.working(name, tuple(changes), tuple(at_home or ()), ends=ends):
            for project, files in changes.items():
                for path, text in files.items():
                    change(os.path.join(project, path), text)
            for path, text in (at_home or {}).items():
                change(os.path.join(self.home, path), text)

    @contextlib.contextmanager
    def working(
        self, name: str, projects: tuple[str, ...], at_home: tuple[str, ...] = (), *, ends: bool = True
    ) -> Iterator[None]:
        def keep(project: str, look: object) -> object:
            return keep_look(self.context, project, look, deadline=time.monotonic() + 20)  # type: ignore[arg-type]

        door = Checkpoints(
            checkpoint_directory(self.context), settings=settings_for(self.context), hidden=keep
        )
        door.new_turn(self.session, name)
        for project in projects:
            door.before([project], f"before {name}", shell=True, directory=project)
        if at_home:
            before_home_change(
                self.context,
                self.home,
                "hermes",
                list(at_home),
                reason=f"before {name}",
                session=self.session,
                turn=name,
            )
        yield
        if ends:
            door.after(wait=True)


def change(path: str, text: str | None) -> None:
    if text is not None:
        put(path, text)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


class World:
    """Two projects and a home, and an agent that works in all of them."""

    def __init__(self, directory: str) -> None:
        self.context: UserContext = throwaway(directory)
        self.user = self.context.places.user_home
        self.home = os.path.join(self.user, ".hermes")
        make_hermes_home(self.home, profiles=(), awkward=False)
        self.one, self.two = (self._project(name) for name in ("one", "two"))
        self.agent = Agent(self.context, "session", self.home)

    def _project(self, name: str) -> str:
        place = os.path.join(self.user, name)
        put(os.path.join(place, ".git", "HEAD"), "ref: refs/heads/main\n")
        put(os.path.join(place, ".gitignore"), "local/\n")
        put(os.path.join(place, "main.py"), f"{name}\n")
        put(os.path.join(place, "old.py"), "old\n")
        put(os.path.join(place, "local", "notes.txt"), "hidden\n")
        return place

    def points(self, directory: str = "", session: str = "") -> Points:
        return Points(
            self.context, directory or self.one, settings=settings_for(self.context), session=session
        )

    def back(self, word: str = "", directory: str = "", **options: bool) -> TurnRollback:
        with self.points(directory) as points:
            done = points.apply(points.turn(word), **options)  # type: ignore[arg-type]
        assert isinstance(done, TurnRollback)
        return done

    def plan(self, word: str = "") -> TurnRollback:
        with self.points() as points:
            done = points.plan(points.turn(word))
        assert isinstance(done, TurnRollback)
        return done

    def undo(self, operation: str = "") -> Undone:
        return take_back(self.context, UndoRequest(operation=operation, settings=settings_for(self.context)))

    def trees(self) -> list[Tree]:
        """Every byte of the projects, and the files of the home that a person has written."""
        return [*(tree_of(place) for place in (self.one, self.two)), self.at_home()]

    def at_home(self) -> Tree:
        mine = ("SOUL.md", "skills", "memories", "notes.md")
        tree = tree_of(self.home)
        return {path: one for path, one in tree.items() if path.split("/")[0] in mine}

    def read(self, *parts: str) -> str:
        with open(os.path.join(*parts)) as file:
            return file.read()


def everywhere(world: World, name: str = "turn-1", **options: bool) -> None:
    """A turn that changes, makes and removes files in both projects, hidden ones too, and in the home."""
    world.agent.turn(
        name,
        {
            place: {
                "main.py": f"{name}\n",
                "new/file.py": "new\n",
                "old.py": None,
                "local/notes.txt": f"{name}, hidden\n",
                "local/more.txt": "made, hidden\n",
            }
            for place in (world.one, world.two)
        },
        {"SOUL.md": f"{name}\n", "notes.md": "made\n"},
        **options,
    )
