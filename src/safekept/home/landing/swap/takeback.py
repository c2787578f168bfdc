"""Taking a landing back: from any instant of it, any number of times, to exactly what was there.

What happened is read off the disk, never guessed from how far a process may have come:

* something under a step's name in `replaced/` belongs back in the home;
* a staged thing that is gone, or has a second name in the home, was put in place;
* a step whose record says that nothing was there before is never given anything back.

Things that were put in place and have been changed since, by a program that ran after a crash, are
not destroyed: they go to `set-aside/` and are reported.
"""

from __future__ import annotations

import contextlib
import os
import stat

from safekept.core.entries import EntryLost
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.platform.syncing import sync_filesystem
from safekept.core.sqlite import SIDECARS, restore_into

from ..area import TAKEN_BACK, LandingDirectory
from ..landing_trees import LandingTrees
from ..record import AWAY, IN_PLACE, MAKE, PUT, LandingRecord, Step, read_record
from .in_place_restore import fold_copy, keep_live_database, restore_kept_copy
from .moving import beside, copy, link, move, remove, same_thing
from .open_databases import who_holds
from .swap import open_up, set_directory

#: How often a step is taken back in a home where directories come and go at that very moment.
_ATTEMPTS = 5


class LandingNotTakenBack(SafekeptError):
    code, retry = "landing-not-taken-back", True


def take_back(directory: LandingDirectory, deadline: float = 30.0) -> list[str]:
    """Undo every step of an uncommitted landing; returns what had to be set aside.

    Goes on past a step that fails, so that as much as possible is right again; raises
    LandingNotTakenBack at the end, and may be called again.
    """
    record = read_record(directory.record)
    failures: list[str] = []
    with LandingTrees(directory, record.roots) as trees:
        back = _Back(trees, record, deadline)
        open_up(trees, record.directories)
        for step in reversed(record.steps):
            try:
                back.undo(step)
            except (OSError, SafekeptError, EntryLost) as error:
                failures.append(f"`{step.entry}`: {getattr(error, 'what', error)}")
        for before in reversed(record.directories):
            try:
                set_directory(trees.targets[before.root], before.path, before.mode, before.mtime_ns)
            except (OSError, SafekeptError) as error:
                failures.append(f"`{before.path}`: {error}")
        if failures:
            raise _not_taken_back(
                directory, os.path.join(record.roots[0].base, record.roots[0].name), failures
            )
        for place in {directory.path, *(root.base for root in record.roots)}:
            sync_filesystem(place)
    directory.mark(TAKEN_BACK)
    return back.aside


class _Back:
    def __init__(self, trees: LandingTrees, record: LandingRecord, deadline: float) -> None:
        self.trees, self.record, self.deadline = trees, record, deadline
        self.aside: list[str] = []
        self._had = record.noted("had")
        self._vanished = record.noted("vanished")
        self._restored_in_place = record.noted("pouring") - record.noted("unpoured")
        self._taken_away = {(step.root, step.path) for step in record.steps if step.do == AWAY}

    def undo(self, step: Step) -> None:
        """Take one step back. Where the directory it was in was removed, what is kept has no
        place any more, and is set aside. One that is rebuilt meanwhile is looked for again."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._undo(step)
            except (FileNotFoundError, NotADirectoryError):
                if not self._place_is_there(step):
                    return self._keep_aside(step)
                if attempt == _ATTEMPTS - 1:
                    raise
        return None

    def _undo(self, step: Step) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            remove(self.trees.target(step), beside(step.path, self.record.temporary(step)))
        if step.do == IN_PLACE:
            if step.number in self._restored_in_place:
                restore_kept_copy(self.trees, self.record, step, self.deadline)
                self.aside.append(step.entry)
        elif step.do == PUT and self._predecessor_is_back(step):
            return
        elif step.do in (PUT, AWAY) and step.database:
            self._database(step)
        elif step.do in (PUT, AWAY):
            self._plain(step)
        elif step.do == MAKE:
            self._unmake(step)
        else:
            self._remake(step)

    def _plain(self, step: Step) -> None:
        target, kept = self.trees.target(step), self.trees.kept(step)
        old, now = self._kept(step), target.look(step.path)
        if old is None:
            if not self._had_something(step) and self._was_put(step, now):
                self._clear(step, step.path, now)
            return
        if now is not None and self._still_old(step, old, now):
            remove(kept, step.path)
            return
        if now is not None and (
            stat.S_ISDIR(now.st_mode) or stat.S_ISDIR(old.st_mode) or not self._ours(step, now)
        ):
            self._clear(step, step.path, now)
        self._return(step, step.path)

    def _database(self, step: Step) -> None:
        """Main file and sidecars. A kept sidecar implies a kept main file: mains are kept first and
        let go of last, so half a database can never be taken for a whole one."""
        target, kept = self.trees.target(step), self.trees.kept(step)
        suffixes = [suffix for suffix in SIDECARS if kept.look(step.path + suffix) is not None]
        old, now = self._kept(step), target.look(step.path)
        if old is None:
            self._database_that_was_not_there(step, now, suffixes)
            return
        if now is None or not self._still_old(step, old, now):
            if now is not None and who_holds(target.full(step.path)):
                self._back_under_holder(step, suffixes)
                return
            self._clear_database(step, now)
            for suffix in suffixes:
                self._second_name(step, step.path + suffix)
            self._second_name(step, step.path)
        else:
            for suffix in suffixes:
                self._second_name(step, step.path + suffix)
        for suffix in suffixes:
            remove(kept, step.path + suffix)
        remove(kept, step.path)

    def _database_that_was_not_there(
        self, step: Step, now: os.stat_result | None, suffixes: list[str]
    ) -> None:
        if not self._had_something(step) and self._was_put(step, now):
            self._clear_database(step, now)
        for suffix in step.carries:
            if self.trees.staged.look(step.staged + suffix) is None:
                remove(self.trees.target(step), step.path + suffix)
        for suffix in suffixes:
            self._second_name(step, step.path + suffix)
            remove(self.trees.kept(step), step.path + suffix)

    def _back_under_holder(self, step: Step, suffixes: list[str]) -> None:
        """A program opened the new database meanwhile: the old content is written into it, and what
        that program may have written is set aside."""
        target, kept = self.trees.target(step), self.trees.kept(step)
        aside = self.trees.set_aside(step.root)
        if aside.look(step.path) is None:
            keep_live_database(self.trees, self.record, step, aside, self.deadline)
            self.aside.append(step.entry)
        name = f"folded-{step.number}"
        folded = fold_copy(kept, step.path, suffixes, self.trees.staged, name)
        restore_into(folded, target.full(step.path), self.deadline, as_it_was=True)
        for suffix in suffixes:
            remove(kept, step.path + suffix)
        remove(kept, step.path)

    def _clear_database(self, step: Step, now: os.stat_result | None) -> None:
        """Make room for the old one; a new one that was written to since is set aside with its log.

        Sidecars first: as long as the new main file is there, a second attempt knows them for its own.
        """
        target = self.trees.target(step)
        foreign = [suffix for suffix in SIDECARS if self._foreign(step, suffix, now)]
        written = any(self._was_written(step, suffix) for suffix in SIDECARS if suffix not in step.carries)
        for suffix in foreign:
            if written:
                self._set_aside(step, step.path + suffix)
            else:
                remove(target, step.path + suffix)
        if now is not None:
            if written or not self._ours(step, now):
                self._set_aside(step, step.path)
            else:
                remove(target, step.path)

    def _was_written(self, step: Step, suffix: str) -> bool:
        """A log with something in it, now or when an earlier attempt set it aside."""
        facts = self.trees.target(step).look(step.path + suffix)
        kept = self.trees.kept(step).look(step.path + suffix)
        if facts is not None and facts.st_size and (kept is None or not same_thing(kept, facts)):
            return True
        return self.trees.was_set_aside(step.root, step.path + suffix)

    def _foreign(self, step: Step, suffix: str, now: os.stat_result | None) -> bool:
        """Whether a sidecar in the home does not belong to the old database.

        All old ones leave before the new main file comes. So beside a new main file every sidecar is
        foreign; where there is no main file, one that was not kept has not left yet, or is back.
        """
        facts = self.trees.target(step).look(step.path + suffix)
        if facts is None:
            return False
        kept = self.trees.kept(step).look(step.path + suffix)
        if kept is not None:
            return not same_thing(kept, facts)
        carried = suffix in step.carries and self.trees.staged.look(step.staged + suffix) is None
        return carried or now is not None

    def _still_old(self, step: Step, old: os.stat_result, now: os.stat_result) -> bool:
        """Whether the old thing never left: what is kept is its second name, or a copy of it.

        Across filesystems a new file may agree with the copy in all its facts, so there the staged
        one has to be looked at: as long as it is there, nothing was put in place.
        """
        if old.st_dev == now.st_dev or step.do != PUT:
            return same_thing(old, now)
        return self.trees.staged.look(step.staged) is not None

    def _kept(self, step: Step) -> os.stat_result | None:
        """What this step itself kept; where it had nothing, what is there belongs to another step."""
        return self.trees.kept(step).look(step.path) if self._had_something(step) else None

    def _predecessor_is_back(self, step: Step) -> bool:
        """Two steps on one name: a directory went away, a file came. Once the first has been taken
        back, in an earlier attempt, what is under the name is the old thing and not ours."""
        return (
            not self._had_something(step)
            and (step.root, step.path) in self._taken_away
            and self.trees.kept(step).look(step.path) is None
        )

    def _had_something(self, step: Step) -> bool:
        return (step.had and step.number not in self._vanished) or step.number in self._had

    def _was_put(self, step: Step, now: os.stat_result | None) -> bool:
        if step.do != PUT:
            return False
        staged = self.trees.staged.look(step.staged)
        return staged is None or (now is not None and same_thing(staged, now) and staged.st_dev == now.st_dev)

    @staticmethod
    def _ours(step: Step, now: os.stat_result) -> bool:
        """Still exactly what was put there."""
        return step.do == PUT and now.st_size == step.size and now.st_mtime_ns == step.mtime_ns

    def _clear(self, step: Step, path: str, now: os.stat_result | None) -> None:
        if now is None:
            return
        if stat.S_ISDIR(now.st_mode) or not self._ours(step, now):
            self._set_aside(step, path)
        else:
            remove(self.trees.target(step), path)

    def _set_aside(self, step: Step, path: str) -> None:
        aside = self.trees.set_aside(step.root)
        name, count = path, 0
        while aside.look(name) is not None:
            count += 1
            name = f"{path}.{count}"
        move(self.trees.target(step), path, aside, name, self.record.temporary(step))
        if step.entry not in self.aside:
            self.aside.append(step.entry)

    def _place_is_there(self, step: Step) -> bool:
        above = step.path.rpartition("/")[0]
        target = self.trees.target(step)
        target.forget(step.path.partition("/")[0])
        facts = target.look(above) if above else None
        return not above or (facts is not None and stat.S_ISDIR(facts.st_mode))

    def _keep_aside(self, step: Step) -> None:
        kept = self.trees.kept(step)
        for suffix in ("", *(SIDECARS if step.database else ())):
            if kept.look(step.path + suffix) is not None:
                aside = self.trees.set_aside(step.root)
                move(kept, step.path + suffix, aside, step.path + suffix, self.record.temporary(step))
                if step.entry not in self.aside:
                    self.aside.append(step.entry)

    def _return(self, step: Step, path: str) -> None:
        target, kept = self.trees.target(step), self.trees.kept(step)
        move(kept, path, target, path, self.record.temporary(step))

    def _second_name(self, step: Step, path: str) -> None:
        """Back in the home, and still kept until all of the database is."""
        target, kept = self.trees.target(step), self.trees.kept(step)
        now, old = target.look(path), kept.look(path)
        if old is None or (now is not None and same_thing(old, now)):
            return
        if now is not None:
            self._set_aside(step, path)
        if not link(kept, path, target, path):
            copy(kept, path, target, path, self.record.temporary(step))

    def _unmake(self, step: Step) -> None:
        target = self.trees.target(step)
        with contextlib.suppress(OSError):  # gone already, or other things are in it: it stays
            parent, name = target.parent(step.path)
            os.rmdir(name, dir_fd=parent)
            target.forget(step.path)

    def _remake(self, step: Step) -> None:
        parent, name = self.trees.target(step).parent(step.path)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)


def _not_taken_back(directory: LandingDirectory, home: str, failures: list[str]) -> LandingNotTakenBack:
    named = "; ".join(failures[:3]) + (" …" if len(failures) > 3 else "")
    return LandingNotTakenBack(
        f"An interrupted landing could not be taken back completely: {named}",
        kept=f"Everything it replaced is kept in `{directory.replaced}`",
        next_steps=(
            "Remove the cause (stop the program that holds the file, or make room on the disk)",
            NextStep("doctor", ("--fix", "--home", home), before="Then take the rest back:"),
        ),
        landing=directory.path,
        failures=failures,
    )
