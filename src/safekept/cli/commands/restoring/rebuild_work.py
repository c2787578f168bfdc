"""One `rebuild` on its way: what it asks, what it has done, and what it says when it is cut off."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.actions.base.unfinished import Unfinished, finished, read_unfinished
from safekept.core.errors import SafekeptError

from ...console import Console, path_text
from ...interrupted import Interrupted, interrupted
from ...sealing import words_again
from ...words.landing_plan import settle, show_doubt, show_passed_over
from ...words.not_brought import not_brought, show_not_brought
from ...words.rebuild import rebuild_document, rebuilt_document, show_rebuild_plan, show_rebuilt

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.restoring.kit_places import KitPlace
    from safekept.actions.restoring.rebuild import PreparedRebuild, Rebuilt
    from safekept.actions.restoring.rebuild_request import RebuildRequest
    from safekept.actions.setup.machine_record import MachineRecord
    from safekept.actions.snapshots.listing import Listed
    from safekept.actions.vault.keys.kit_reading import ReadKit
    from safekept.settings import Settings
    from safekept.vault.repo import Secret


class RebuildWork:
    """One rebuild on its way: a home, or all homes of one machine; then what protects them."""

    def __init__(
        self,
        console: Console,
        settings: Settings,
        context: UserContext,
        typed: list[Secret],
        key_file: str,
        again: list[str],
        *,
        yes: bool,
        dry_run: bool,
    ) -> None:
        self.console, self.settings, self._context, self._typed = console, settings, context, typed
        self._key_file, self._yes, self._dry_run = key_file, yes, dry_run
        self._done: list[tuple[PreparedRebuild, dict[str, object], bool]] = []
        self._record: MachineRecord | None = None
        self._again = tuple(again)  # the words of the same command
        self._begun: Unfinished | None = None  # once something is to be changed
        self._building: PreparedRebuild | None = None
        self._places: list[KitPlace] = []  # those on a kit
        self._kit: ReadKit | None = None

    @property
    def _opening(self) -> UserContext:
        """A passphrase is typed once."""
        typed = self._typed
        return (
            self._context.changed(vault_secret=lambda: typed[-1], secret_tries=1) if typed else self._context
        )

    def open_with(self, context: UserContext) -> None:
        """Another key, after the one on the kit opened nothing."""
        self._context = context

    def best_of(self, kit: ReadKit, path: str, request: RebuildRequest) -> RebuildRequest:
        """The same for the place on the kit that has the newest; all of them are shown with the plan.

        One that was cut off goes on from the place where it began.
        """
        from safekept.actions.restoring.kit_places import look_at_places, newest_of

        self._places = look_at_places(lambda: self._opening, request, kit.places, self.console.listener())
        self._kit = kit
        self.console.finish()
        begun = read_unfinished(self._context)
        if begun is not None and begun.arguments == self._again and begun.place in kit.places:
            return replace(request, place=begun.place, named=path)
        chosen = newest_of(self._places, path, with_key=bool(kit.key))
        return replace(request, place=chosen.place, named=path)

    def left_of(self, request: RebuildRequest) -> list[RebuildRequest]:
        """What was asked for; where every home is in place and the rest was cut off, those very homes.

        By then the machine may have a copy of its own in that place, and the newest would be that one.
        """
        begun = read_unfinished(self._context)
        if begun is None or begun.arguments != self._again or not begun.homes or "history" in begun.left:
            return [request]
        return [replace(request, home=home, snapshot=name) for home, name in begun.homes.items()]

    def one(self, request: RebuildRequest, *, home_only: bool) -> None:
        """Bring one home back; in a dry run, show how."""
        from safekept.actions.restoring.rebuild import prepare_rebuild
        from safekept.actions.setup.machine_record import MachineRecord

        from .places_again import with_removed
        from .protect_again import then

        console = self.console
        if self._typed:  # what opened it is what opens it again, and not the key of this machine
            request = replace(request, key_given=True, asks=False)
        earlier = read_unfinished(self._context)
        with prepare_rebuild(self._opening, request, console.listener(), earlier) as prepared:
            console.finish()
            if prepared.already:
                console.heading(f"{path_text(prepared.ground.home)} is in place already; the rest follows")
            else:
                if (doubt := prepared.origin.doubt) is not None and doubt.sound is not None:
                    show_doubt(console, doubt, _again(console, prepared, "--snapshot", doubt.sound.short))
                show_passed_over(console, prepared.origin.passed_over)
                kit = self._kit if not self._done else None
                show_rebuild_plan(console, prepared, self._places if kit else (), kit.written if kit else "")
            if self._record is None:
                if self._kit is not None:
                    self._places = with_removed(prepared, self._places, self._kit)
                found = (console, prepared, self._places, self._kit)
                self._record = MachineRecord() if home_only else then(*found)
            if self._dry_run:
                self._done.append((prepared, rebuild_document(prepared), True))
                return
            if not prepared.already:
                self._settle(prepared)
            self._begin(prepared, earlier)
            if prepared.already:
                self._done.append((prepared, {**rebuild_document(prepared), "already": True}, True))
                return
            self._building = prepared
            rebuilt = self._carried_out(prepared)
            console.finish()
            again = not self._record and not home_only
            connected = self._connected_again(prepared) if again else []
            show_rebuilt(console, prepared, rebuilt, connected, last=not self._record)
            self._done.append((prepared, rebuilt_document(prepared, rebuilt), rebuilt.complete))

    def _settle(self, prepared: PreparedRebuild) -> None:
        key = self._key()

        def again(of: Listed | None, *more: str) -> str:
            named = ("--snapshot", of.short) if of is not None else ()
            return _again(self.console, prepared, *named, *key, *more)

        origin = prepared.origin
        settle(
            self.console,
            "Rebuild from",
            prepared.questions,
            again,
            chosen=origin.chosen,
            doubt=origin.doubt,
            passed_over=origin.passed_over,
            yes=self._yes,
        )

    @property
    def _prepared(self) -> list[PreparedRebuild]:
        return [prepared for prepared, _, _ in self._done]

    def _key(self) -> tuple[str, ...]:
        return ("--key-file", os.path.abspath(os.path.expanduser(self._key_file))) if self._key_file else ()

    def _begin(self, prepared: PreparedRebuild, earlier: Unfinished | None) -> None:
        """Remember that it is on its way, before anything is changed."""
        from .protect_again import parts_of

        if self._begun is None:
            place, record = prepared.origin.place, self._record
            same = earlier is not None and earlier.place == place
            self._begun = Unfinished("rebuild", self._again, place=place)
            if same and earlier is not None:
                self._begun.homes, self._begun.done = earlier.homes, list(earlier.homes)
            self._begun.add([prepared.ground.home, *(parts_of(record) if record else ())])
        self._begun.add([prepared.ground.home])
        self._begun.write(self._context)

    def _carried_out(self, prepared: PreparedRebuild) -> Rebuilt:
        assert self._begun is not None
        try:
            rebuilt = prepared.carry_out(self.console.listener())
        except SafekeptError:
            if not self._begun.done and not prepared.placed:
                finished(self._context)
            raise
        self._begun.mark(prepared.ground.home)
        self._begun.homes[prepared.ground.home] = prepared.subject.name
        self._begun.write(self._context)
        return rebuilt

    def _connected_again(self, prepared: PreparedRebuild) -> list[str]:
        """What came with the home called a program of the machine that is gone; now it calls this one."""
        from safekept.integrations.connecting.agents import connect_again
        from safekept.integrations.connecting.program import this_program

        if prepared.context is not prepared.own:
            return []  # root rebuilds the home, not the user's life
        return connect_again(prepared.own, this_program(self.settings.environment), prepared.ground.home)

    @property
    def begun(self) -> bool:
        return self._begun is not None

    def cut_off(self) -> Interrupted:
        """What to say after Ctrl-C; what is not finished is remembered, and what was not begun is not."""
        begun, building = self._begun, self._building
        if begun is None:
            return interrupted("rebuild")
        if building is not None and building.placed:
            begun.mark(building.ground.home)
            begun.write(self._context)
        if begun.done:
            return Interrupted.when(begun.stands, begun.again)
        finished(self._context)
        return Interrupted.when("Nothing was put in place: what was there is as it was", begun.again)

    def end(self, kit: ReadKit | None) -> int:
        """Protect the machine as the old one was, where that one was; the exit code of all of it."""
        from .protect_again import protect_again

        prepared, document, _ = self._done[0]
        more: dict[str, object] = {"also": [one for _, one, _ in self._done[1:]]} if self._done[1:] else {}
        left = not_brought(self._prepared)
        more |= {"not_brought": [one.as_dict() for one in left]} if left else {}
        more |= {"places": [one.as_dict() for one in self._places]} if self._places else {}
        if self._dry_run:
            then = self._record.as_dict() if self._record is not None else None
            self.console.document({"dry_run": True, **document, **more, "then": then})
            show_not_brought(self.console, self._prepared, self._key())
            self.console.line("Nothing was changed")
            return 0
        ended = None
        if self._record:
            assert self._begun is not None
            ended = protect_again(
                *(self.console, self.settings, prepared, self._opening, self._record, self._begun),
                kit=kit,
                places=self._places,
            )
        else:
            finished(self._context)
        show_not_brought(self.console, self._prepared, self._key())
        protection = ended.document if ended is not None else None
        self.console.document({**document, **more, "protection": protection})
        if not all(complete for _, _, complete in self._done):
            return 3
        return ended.code if ended is not None else 0


def _again(console: Console, prepared: PreparedRebuild, *more: str) -> str:
    """The same rebuild as it was asked for, with something added; runs from any directory."""
    return console.command("rebuild", *words_of(prepared.request), *more)


def words_of(request: RebuildRequest) -> list[str]:
    """What was asked for, in words that mean the same in any directory."""
    words = [request.named or request.place]
    for option, value in (
        ("--home", os.path.abspath(request.home) if request.home else ""),
        ("--layout", request.layout),
        ("--snapshot", request.snapshot),
        ("--host", request.host),
        ("--of", request.of),
        ("--archive", request.archive),
    ):
        words += [option, value] if value else []
    words += ["--allow-damaged"] if request.allow_damaged else []
    return [*words, *words_again()]
