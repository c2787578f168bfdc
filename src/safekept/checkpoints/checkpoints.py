"""Checkpoints for an agent: what to call before it acts and after its turn.

Named files are captured at every call. A full pass is made once per project and turn, before the first
change, and before every shell command, since it is unknown what a command will touch. What a turn left
behind is marked off the call path. Nothing here raises: what went wrong is returned and kept in the
project's `state.json`, where `status` finds it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.events import Listener, silent
from safekept.core.worker import Worker

from .as_owner import OtherUsersProjects, by_owner
from .checkpoint import REASONS, Skipped
from .project import WORKED_IN, Root, find_root
from .state import State, read_state, write_state
from .store.git import find_git
from .store.store import Store
from .take.taken import PlainGuard
from .take.taking import DEFAULTS, Protection, Taken, TakeSettings, TooManyFiles, failure_of, take
from .upkeep.maintenance import MaintenanceSettings, start_if_due

if TYPE_CHECKING:
    from .scan.hidden_look import HiddenLook

#: A project with too many files is not walked again before this (nanoseconds).
_RETRY_NS = 3600 * 10**9
NO_GIT = "git is not on this machine: checkpoints are taken, but the rules of .gitignore cannot be asked"


class Checkpoints:
    """One per agent process; `directory` is the store's. `forbidden`: homes, which are never a project.

    `chosen`: resolved directories that a person called a project, marker or not. `hidden` is called
    with a project and what a point found hidden in it, to keep that.
    """

    def __init__(
        self,
        directory: str,
        *,
        settings: TakeSettings = DEFAULTS,
        forbidden: Collection[str] = (),
        chosen: Collection[str] = (),
        maintenance: MaintenanceSettings | None = None,
        hidden: Callable[[str, HiddenLook], object] | None = None,
        listener: Listener = silent,
    ) -> None:
        self.directory, self.settings, self.listener = directory, settings, listener
        self.maintenance = maintenance  # None: nothing is started to keep the store small
        self.hidden = hidden
        self.forbidden, self.chosen = tuple(forbidden), tuple(chosen)
        self._session = self._turn = ""
        self._touched: dict[str, Root] = {}  # projects of this turn
        self._noticed: set[str] = set()
        self._workers: list[Worker] = []

    def new_turn(self, session: str = "", turn: str = "") -> None:
        """The user said something: the next change of each project is preceded by a full pass."""
        self._session = session
        # Without a name of its own a turn is called by its time, so that no two are taken for one.
        self._turn = turn or f"{time.time_ns():x}"
        self._touched = {}

    def before(
        self,
        paths: Iterable[str],
        reason: str = "",
        session: str = "",
        turn: str = "",
        *,
        shell: bool = False,
        directory: str = "",
        workplaces: Sequence[str] = (),
    ) -> Protection:
        """Call before a tool changes `paths`, or with `shell` before a command runs in them.

        Relative paths are relative to `directory`, the one the tool works in. `workplaces`: the directories
        that the agent works in, which are projects where no marker says otherwise.
        """
        protection = Protection()
        try:
            own, others = by_owner(list(paths), directory)
            for owner, names in others.items():
                request = {"paths": names, "reason": reason, "shell": shell, "directory": directory}
                self._others.before(
                    protection,
                    owner,
                    session or self._session,
                    turn or self._turn,
                    workplaces=list(workplaces),
                    **request,
                )
            self._before(protection, own, reason, session, turn, shell, directory, workplaces)
        except Exception as error:
            protection.failures.append(failure_of("", error))
        return protection

    @property
    def _others(self) -> OtherUsersProjects:
        """What an agent of root's changes in another user's project is kept by that user."""
        return OtherUsersProjects(
            self.directory,
            {
                "settings": replace(self.settings, guard=PlainGuard(self.forbidden), seat_belt=None),
                "forbidden": self.forbidden,
                "maintenance": self.maintenance,
            },
        )

    def after(
        self,
        session: str = "",
        turn: str = "",
        reason: str = "after the turn",
        *,
        wait: bool = False,
        over: bool = True,
        only_open: bool = False,
    ) -> Protection:
        """Call when a turn ended: marks what it left behind, off this thread unless `wait`.

        Not `over`: only a command of it ended, and the end of the turn is to be marked, too.
        `only_open`: not where a mark is the last that is known of this session. Whatever changed since then
        was changed by others, and a later mark would say that the agent did it.
        The answer of a call that does not wait is empty; `state.json` tells.
        """
        session, turn = session or self._session, turn or self._turn
        protection = Protection()
        roots = list(self._touched.values()) or self._touched_elsewhere([session, turn])
        self._touched = {}
        others = os.geteuid() == 0
        if not roots and not others:
            return protection

        def work() -> None:
            try:
                if others:
                    given = {"reason": reason, "over": over, "only_open": only_open}
                    self._others.after(protection, session, turn, **given)
                if not roots:
                    return
                with Store.open(self.directory, listener=self.listener) as store:
                    for root in roots:
                        if only_open and _is_marked(store, root.path, session):
                            _forget_turn(store, root.path, [session, turn])
                            continue
                        self._one(store, protection, root, [], "after", reason, session, turn, True, over)
            except Exception as error:
                protection.failures.append(failure_of("", error))

        if wait:
            work()
            return protection
        self._workers = [worker for worker in self._workers if worker.running]
        self._workers.append(Worker(work, "safekept-after-mark"))
        return Protection()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for after-marks that are still being made; for the end of a process."""
        return all(worker.wait(timeout) for worker in self._workers)

    def _root(self, path: str, workplaces: Sequence[str] = ()) -> Root | None:
        """The project of a path. One that a person chose stays that project, also when it is gone."""
        if path in self.chosen:
            return Root(path, "chosen")
        return find_root(path, forbidden=self.forbidden, workplaces=workplaces)

    def _touched_elsewhere(self, turn: list[str]) -> list[Root]:
        """Projects that other processes touched in this turn: hooks are a process per call."""
        found: list[Root] = []
        place = os.path.join(self.directory, "projects")
        with contextlib.suppress(OSError):
            for name in os.listdir(place):
                state = read_state(os.path.join(place, name))
                if any(turn) and turn in state.turns and state.project:
                    found.append(self._worked_in_before(state))
        return found

    def _worked_in_before(self, state: State) -> Root:
        """A project that is gone has not become a directory of which only names are known."""
        if not os.path.isdir(state.project):
            return Root(state.project, state.marker)
        root = self._root(state.project, [state.project] if state.marker == WORKED_IN else [])
        return root if root and root.path == state.project else Root(state.project, "")

    def _before(
        self,
        protection: Protection,
        paths: list[str],
        reason: str,
        session: str,
        turn: str,
        shell: bool,
        directory: str,
        workplaces: Sequence[str],
    ) -> None:
        session, turn = session or self._session, turn or self._turn
        groups: dict[str, tuple[Root, list[str]]] = {}
        # A write to a link changes what it leads to: both are captured, each in its project.
        targets = [os.path.join(directory, path) for path in paths if "\0" not in path]
        targets = [os.path.realpath(path) for path in targets if os.path.islink(path)]
        for path in [*paths, *(path for path in targets if not os.path.isdir(path))]:
            full = os.path.abspath(os.path.join(directory, path)) if "\0" not in path else ""
            root = self._root(full, workplaces) if full else None
            if root is None:
                protection.skipped.append(Skipped(path, "outside", "is not on this machine"))
                continue
            _, names = groups.setdefault(root.path, (root, []))
            if not shell or not os.path.isdir(full):
                names.append(full)
            elif not root.walked:
                why = self._unwalked(full)
                protection.skipped.append(Skipped(full, why, REASONS[why]))
                self._notice(protection, f"`{full}` {REASONS[why]}")
        if not groups:
            return
        if find_git() is None:
            self._notice(protection, NO_GIT)
        with Store.open(self.directory, listener=self.listener) as store:
            for root, names in groups.values():
                if shell and not root.walked and not names:
                    self._say_unprotected(store, root)
                    if not any(point.files for point in store.checkpoints(root.path)[:1]):
                        continue  # a point that keeps nothing is none
                self._touched[root.path] = root
                self._one(store, protection, root, names, "before", reason, session, turn, shell)
        if self.maintenance is not None and protection.taken:
            written = sum(taken.written for taken in protection.taken)
            packs = max(taken.packs for taken in protection.taken)
            start_if_due(self.directory, self.maintenance, written=written, packs=packs)

    def _unwalked(self, path: str) -> str:
        """Why no pass is made over a directory."""
        place = os.path.realpath(path)
        return "too-much" if place == "/" or place in self.forbidden else "unmarked"

    def _say_unprotected(self, store: Store, root: Root) -> None:
        """Shown by the status, too; a command runs all the same where it cannot be."""
        with contextlib.suppress(OSError):
            place = store.project_directory(root.path)
            state = read_state(place)
            state.project = root.path
            state.unprotected = {"time_ns": time.time_ns(), "what": REASONS[self._unwalked(root.path)]}
            write_state(place, state)

    def _one(
        self,
        store: Store,
        protection: Protection,
        root: Root,
        names: list[str],
        kind: str,
        reason: str,
        session: str,
        turn: str,
        full: bool,
        over: bool = False,
    ) -> None:
        """One project; its trouble stays its own."""
        state = State()
        place = ""
        try:
            place = store.project_directory(root.path)
            state = read_state(place)
            state.project = root.path
            state.unprotected = {} if root.walked else state.unprotected
            state.marker = root.marker or state.marker
            now = [session, turn]
            if kind == "before" and root.walked and (state.passed != now or not any(now)):
                full = True
            limited = state.limited
            if limited.get("max_files") == self.settings.max_files and isinstance(
                limited.get("time_ns"), int
            ):
                full = full and time.time_ns() - int(str(limited["time_ns"])) > _RETRY_NS
            taken = self._take(store, state, root, names, kind, reason, session, turn, full)
            if not full and root.walked and self._only_hidden(taken):
                full = True
                taken = self._take(store, state, root, names, kind, reason, session, turn, full)
            if full and not state.limited:
                state.passed = now
            protection.taken.append(taken)
            if self.hidden is not None and taken.hidden is not None:
                self.hidden(root.path, taken.hidden)
            protection.skipped += [item for item in taken.skipped if names or item.reason != "gone"]
            point = taken.checkpoint or taken.latest
            state.succeeded(point.id if point else "", kind, taken.checkpoint is not None, taken.seconds)
            state.notices = list(taken.remarks)[:20]
            for remark in taken.remarks:
                self._notice(protection, remark)
        except Exception as error:
            failure = failure_of(root.path, error)
            protection.failures.append(failure)
            state.failed(failure.code, failure.what)
        if place:
            with contextlib.suppress(OSError):
                # Another session may have written since: what it says of its own turn stays.
                state.turns = read_state(place).turns
                if kind == "before":
                    state.touched([session, turn])
                elif over:
                    state.marked([session, turn])
                write_state(place, state)

    def _only_hidden(self, taken: Taken) -> bool:
        """Whether something was named that only the hidden half can keep: that takes a pass."""
        named = any(one.reason in ("secret", "oversize") for one in taken.skipped)
        return named and self.settings.hidden is not None

    def _take(
        self,
        store: Store,
        state: State,
        root: Root,
        names: list[str],
        kind: str,
        reason: str,
        session: str,
        turn: str,
        full: bool,
    ) -> Taken:
        def attempt(whole: bool) -> Taken:
            return take(
                store,
                root.path,
                kind=kind,
                reason=reason,
                session=session,
                turn=turn,
                named=names,
                full=whole,
                walked=root.walked,
                settings=self.settings,
                listener=self.listener,
            )

        try:
            taken = attempt(full)
        except TooManyFiles as error:
            state.limited = {
                "time_ns": time.time_ns(),
                "max_files": self.settings.max_files,
                "what": error.what,
            }
            taken = attempt(False)
            return replace(taken, remarks=(*taken.remarks, f"{error.what}: only named files are taken"))
        if full:
            state.limited = {}
        return taken

    def _notice(self, protection: Protection, text: str) -> None:
        if text not in self._noticed:
            self._noticed.add(text)
            protection.notices.append(text)


def _is_marked(store: Store, project: str, session: str) -> bool:
    """Whether a mark is the last point of a session here."""
    own = (point for point in store.checkpoints(project) if point.session == session)
    last = next((point for point in own if point.kind in ("before", "after")), None)
    return last is not None and last.kind == "after"


def _forget_turn(store: Store, project: str, turn: list[str]) -> None:
    with contextlib.suppress(OSError):
        place = store.project_directory(project)
        state = read_state(place)
        state.marked(turn)
        write_state(place, state)
