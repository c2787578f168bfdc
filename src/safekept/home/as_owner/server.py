"""The child's side: it has become the owner of the home, and does there what root asks for.

Everything is loaded before the rights are given away; from then on each look, read and write is the
owner's own. It ends when root's end of the pipes is closed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from safekept.core.agents import locate_home, recognise_home
from safekept.core.entries import Entry, Remark
from safekept.core.events import Event
from safekept.core.owner import OwnerPipe, load_packages, serve
from safekept.core.sqlite import CaptureOptions

from ..landing.area import existing_areas
from ..landing.plan import LandingPlan
from ..landing.recovery import expire, landings, leftovers, recover
from ..landing.swap.moving import discard
from ..landing.targets import Targets
from ..landing.undoing import plan_undo, undo
from ..layout.layout import Layout
from ..layout.places import check_home, find_home
from ..scan.scanning import Scan, Selection
from .wire import Contents, entry_in, entry_out, facts_in, plan_out, remarks_out

# What root may have done in a home by a word: paths and numbers in, plain values out.


def _locate(
    home: str,
    layout: Layout | None,
    layouts: Mapping[str, Layout],
    environment: Mapping[str, str],
    user_home: str,
    existing: bool,
) -> list[str]:
    """The home that is meant, links resolved, and the name of its layout; as `UserContext.locate` does."""
    if not home:
        assert layout is not None
        find = find_home if existing else locate_home
        return [find(layout, environment, user_home), layout.name]
    home = os.path.realpath(home)
    chosen = layout or layouts[recognise_home(home, layouts) or "generic"]
    if existing:
        check_home(home, chosen)
    return [home, chosen.name]


def _empty(path: str) -> None:
    """Take away what is in a directory."""
    for name in os.listdir(path):
        discard(os.path.join(path, name))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "locate": _locate,
    "is_directory": os.path.isdir,
    "names": lambda path: sorted(os.listdir(path)),
    "areas": lambda home: [area.path for area in existing_areas(home)],
    "recover": lambda home, wait: [one.as_dict() for one in recover(home, wait)],
    "landings": lambda home: [
        {**past.as_dict(), "directory": past.directory.path} for past in landings(home)
    ],
    "empty": _empty,
    "expire": expire,
    "leftovers": lambda home: [one.as_dict() for one in leftovers(home)],
    "plan_undo": lambda home, operation: plan_undo(home, operation).as_dict(),
    "undo": lambda home, operation, deadline: undo(home, operation, deadline=deadline).as_dict(),
}


_TOGETHER = 500
#: What is loaded only when it is needed, and can no longer be found once the rights are gone.
_NEEDED = ("safekept.core", "safekept.home", "encodings")
#: A test holds these against what the modules above import anywhere inside.
_ALSO = (
    "array atexit bisect calendar concurrent.futures.thread ctypes difflib hashlib pwd ruamel.yaml.composer "
    "ruamel.yaml.error ruamel.yaml.nodes select shlex sqlite3 subprocess tomllib traceback uuid"
).split()
_LEFT_ALONE = ("safekept.core.objects", "safekept.core.processes.foreground")


class Session:
    """One scan or one landing."""

    def __init__(self) -> None:
        self.contents = Contents()
        self.entries: dict[int, Entry] = {}
        self.scan: Scan | None = None
        self.groups: Generator[list[Entry]] | None = None
        self.plan: LandingPlan | None = None
        self.source: RootSource | None = None


class RootSource:
    """What root gives to be landed: entries in turn, their bytes as they are asked for."""

    def __init__(self, line: OwnerPipe, session: int, ordered: bool) -> None:
        self._line, self._session, self.ordered = line, session, ordered
        self.remarks: list[Remark] = []

    def __iter__(self) -> Iterator[Entry]:
        self._line.ask("begin", self._session)
        while True:
            answer, _ = self._line.ask("more", self._session)
            for one in answer:
                yield entry_in(one, self._line.ask, self._session)
            if not answer:
                return


class Server:
    """What root may ask for."""

    def __init__(self, line: OwnerPipe, scratch: str) -> None:
        self.line, self.scratch = line, scratch
        self.sessions: dict[int, Session] = {}
        self.count = 0

    def handlers(self) -> dict[str, Any]:
        return {name[3:]: getattr(self, name) for name in dir(self) if name.startswith("on_")}

    def tell(self, event: Event) -> None:
        self.line.tell(asdict(event))

    def on_do(self, function: str, arguments: list[Any], named: Mapping[str, Any]) -> tuple[Any, bytes]:
        """One of the plain functions: paths and numbers in, plain values out."""

        return FUNCTIONS[function](*arguments, **named), b""

    def on_scan(
        self,
        home: str,
        layout: Layout,
        selection: Selection,
        options: CaptureOptions,
        fields: dict[str, Any],
    ) -> tuple[Any, bytes]:
        from ..scan.scanning import scan

        session, number = self._new()
        asks = {name: fields.pop(name) for name in ("check", "lean")}
        options = replace(options, scratch=self.scratch, isolated=False)
        session.scan = scan(
            home,
            layout,
            selection,
            capture=options,
            check=(lambda path: bool(self.line.ask("check", path)[0])) if asks["check"] else None,
            lean=(lambda path: self.line.ask("lean", path)[0]) if asks["lean"] else None,
            listener=self.tell,
            **fields,
        )
        return [number, session.scan.home], b""

    def on_next(self, number: int, first: bool) -> tuple[Any, bytes]:
        """Some more directories; nothing and the remarks where there are no more."""
        session = self.sessions[number]
        assert session.scan is not None
        if first:
            session.contents.close_all()
            session.entries, session.groups = {}, session.scan.groups()
        assert session.groups is not None
        found: list[list[Any]] = []
        while sum(map(len, found)) < _TOGETHER and (group := next(session.groups, None)) is not None:
            start = len(session.entries)
            session.entries.update(enumerate(group, start))
            found.append([entry_out(entry, start + place) for place, entry in enumerate(group)])
        return {"groups": found, "remarks": [] if found else remarks_out(session.scan.remarks)}, b""

    def on_open(self, number: int, entry: int) -> tuple[Any, bytes]:
        session = self.sessions[number]
        return session.contents.open(session.entries[entry])

    def on_read(self, number: int, content: int) -> tuple[Any, bytes]:
        return self.sessions[number].contents.read(content)

    def on_close(self, number: int, content: int) -> tuple[Any, bytes]:
        return self.sessions[number].contents.close(content)

    def on_known(self, number: int, entry: int, facts: Any) -> tuple[Any, bytes]:
        known = self.sessions[number].entries[entry].known
        return known is None or known(facts_in(facts)), b""

    def on_census(self, number: int) -> tuple[Any, bytes]:
        return self._scan(number).census(), b""

    def on_blank(self, number: int) -> tuple[Any, bytes]:
        return self._scan(number).blank(), b""

    def on_answers(self, number: int) -> tuple[Any, bytes]:
        return self._scan(number).answers(), b""

    def on_external(self, number: int) -> tuple[Any, bytes]:
        return self._scan(number).external(), b""

    def on_measure(self, number: int) -> tuple[Any, bytes]:
        return list(self._scan(number).measure()), b""

    def on_plan(
        self,
        ordered: bool,
        targets: Targets,
        layout: Layout,
        exact: bool,
        only: tuple[str, ...],
        damaged: tuple[str, ...],
    ) -> tuple[Any, bytes]:
        from ..landing.plan import plan_landing

        session, number = self._new()
        session.source = RootSource(self.line, number, ordered)
        plan = plan_landing(
            session.source,
            targets,
            layout,
            exact=exact,
            only=only,
            spare=lambda path: bool(self.line.ask("spare", number, path)[0]),
            damaged=damaged,
        )
        session.plan = plan
        return [number, plan_out(plan)], b""

    def on_land(self, number: int, named: Mapping[str, Any]) -> tuple[Any, bytes]:
        from ..landing.landing import land

        session = self.sessions[number]
        assert session.source is not None and session.plan is not None
        return land(session.source, session.plan, listener=self.tell, **named).as_dict(), b""

    def on_done(self, number: int) -> tuple[Any, bytes]:
        if (session := self.sessions.pop(number, None)) is not None:
            session.contents.close_all()
        return None, b""

    def _scan(self, number: int) -> Scan:
        scan = self.sessions[number].scan
        assert scan is not None
        return scan

    def _new(self) -> tuple[Session, int]:
        self.count += 1
        self.sessions[self.count] = session = Session()
        return session, self.count


def main(uid: int, gid: int, *groups: int) -> None:
    """The whole life of the child."""
    with contextlib.ExitStack() as stack:

        def handlers(line: OwnerPipe) -> dict[str, Any]:
            place = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None  # noqa: S108
            scratch = tempfile.mkdtemp(prefix="safekept-", dir=place)
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            return Server(line, scratch).handlers()

        serve(load_everything, handlers, uid, gid, *groups)


def load_everything() -> None:
    """What may be needed later, while it can still be read."""
    load_packages(_NEEDED, _ALSO, (*_LEFT_ALONE, __name__))
