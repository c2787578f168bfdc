"""Listing one directory: which of its names are kept, and what has to be read.

Every name is decided before anything is opened: by the rules, by git's ignore rules for names that were
not decided before, by its kind and size. What looks as it did keeps the blob it had.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from array import array

from ..checkpoint import Skipped
from ..store.objects import NOTHING
from .content import log_mark, settled, sidecar_of
from .folder import CODE_OF, DATABASE, PLAIN, STORED, SYMLINK, UNSURE, WIDTH, Folder
from .ignore import RULES_FILE, Ignore
from .rules import Rules


def unreadable(path: bytes, error: OSError) -> Skipped:
    """What is there and could not be looked at or into."""
    return Skipped(os.fsdecode(path), "unreadable", error.strerror or str(error))


class Listing:
    """Makes folders from directories. `limit` is the size beyond which a file is not stored; 0: none.

    `pending` collects the names of files that must be read, by folder; `lost` what could not be looked at.
    """

    def __init__(
        self,
        rules: Rules,
        ignore: Ignore | None,
        limit: int,
        pending: dict[bytes, list[bytes]],
        lost: list[Skipped],
    ) -> None:
        self._rules, self._ignore, self._limit, self.pending = rules, ignore, limit, pending
        self._lost = lost

    def read(
        self,
        path: bytes,
        directory: int,
        status: os.stat_result,
        old: Folder | None,
        fresh: bool,
        ruled: bool,
    ) -> tuple[Folder, bool, bool]:
        """A directory that is new, or whose names may have changed."""
        before = time.time_ns()
        folder = Folder(status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_mode & 0o7777)
        if not settled(max(status.st_ctime_ns, status.st_mtime_ns), before):
            folder.inode = UNSURE
        old_places = {name: place for place, name in enumerate(old.names)} if old else {}
        old_folders = {name: place for place, name in enumerate(old.folders)} if old else {}
        forced = old.forced if old else frozenset()
        if old and old.partial:
            forced = forced | frozenset(old.names)
            old_known: dict[bytes, tuple[str, int]] = {}
        else:
            old_known = old.hidden if old else {}
        with os.scandir(directory) as listing:
            entries = {
                os.fsencode(entry.name): (entry, entry.is_dir(follow_symlinks=False)) for entry in listing
            }
        if self._ignore is not None:
            rules = entries.get(RULES_FILE)
            ruled = ruled or rules is not None
            fresh = fresh or self._rules_changed(rules, old, old_places)
        asked: list[bytes] = []
        undecided: list[bytes] = []
        for name, (_, is_directory) in entries.items():
            reason = self._rules.decide(path, name, is_directory)
            if reason is not None:
                folder.hidden[name] = (reason, -1 if is_directory else 0)
            elif ruled and self._ignore is not None:
                known = name in old_folders if is_directory else name in old_places
                was = old_known.get(name)
                if not fresh and was is not None and was[0] == "ignored" and (was[1] < 0) == is_directory:
                    folder.hidden[name] = was
                elif fresh or not known or (old is not None and old.partial):
                    undecided.append(name)
        if undecided and self._ignore is not None:
            prefix = path + b"/" if path else b""
            asked = [prefix + name for name in undecided]
            for name in self._ignore.ask(asked):
                name = name[len(prefix) :]
                folder.hidden[name] = ("ignored", -1 if entries[name][1] else 0)
        waiting: list[int] = []
        taken = set()
        for name in sorted(entries):
            entry, is_directory = entries[name]
            why = folder.hidden.get(name)
            if is_directory:
                # A directory that the rules hide is gone into only for files that were named.
                if why is None or (name in old_folders and why[0] in ("excluded", "ignored")):
                    place = 20 * old_folders[name] if name in old_folders and old else -1
                    folder.folders.append(name)
                    folder.trees += old.trees[place : place + 20] if old and place >= 0 else NOTHING
                    folder.metas += old.metas[place : place + 20] if old and place >= 0 else NOTHING
                continue
            if why is not None:
                if name in forced and why[0] in ("excluded", "ignored"):
                    del folder.hidden[name]
                    taken.add(name)
                elif name == RULES_FILE and why[0] == "ignored":
                    del folder.hidden[name]  # still looked at: it rules what is beside it
                else:
                    continue
            try:
                looks = entry.stat(follow_symlinks=False)
            except OSError as error:
                folder.inode = UNSURE
                if not isinstance(error, FileNotFoundError):
                    folder.hidden[name] = ("unreadable", 0)
                    self._lost.append(unreadable(path + b"/" + name if path else name, error))
                continue
            self._row(folder, name, looks, old, old_places.get(name, -1), waiting)
            if why is not None and name == RULES_FILE and name not in taken:
                folder.codes[-1] = CODE_OF["ignored"]
                folder.set_oid(len(folder.names) - 1, NOTHING)
                waiting = [place for place in waiting if place != len(folder.names) - 1]
        folder.forced = frozenset(taken)
        if old is not None:
            folder.blob = old.blob
            for name, known_database in old.databases.items():
                place = folder.names.index(name) if name in entries and name in folder.names else -1
                if place >= 0 and folder.codes[place] == DATABASE:
                    folder.databases[name] = known_database
                    if log_mark(directory, name) != known_database[1] and place not in waiting:
                        waiting.append(place)
        if waiting:
            self.pending[path] = [folder.names[place] for place in waiting]
        return folder, fresh, ruled

    def _row(
        self,
        folder: Folder,
        name: bytes,
        looks: os.stat_result,
        old: Folder | None,
        was: int,
        waiting: list[int],
    ) -> None:
        if not stat.S_ISREG(looks.st_mode) and not stat.S_ISLNK(looks.st_mode):
            folder.hidden[name] = ("special", 0)
            return
        base = sidecar_of(name)
        if base is not None and old is not None and base in old.databases:
            folder.append(name, CODE_OF["sidecar"], looks)
            return
        if old is None or was < 0:
            code = SYMLINK if stat.S_ISLNK(looks.st_mode) else PLAIN
            if code == PLAIN and self._limit and looks.st_size > self._limit:
                code = CODE_OF["oversize"]
            place = folder.append(name, code, looks)
            if code in STORED:
                waiting.append(place)
            return
        place = folder.append(name, PLAIN, looks)
        if was >= 0:
            code = old.codes[was]
            same = folder.marks[WIDTH * place :] == old.marks[WIDTH * was : WIDTH * was + WIDTH]
            folder.codes[place] = code
            if same and code in STORED and not (self._limit and looks.st_size > self._limit):
                folder.set_oid(place, old.oid(was))
                return
            if code not in (PLAIN, DATABASE):
                folder.codes[place] = PLAIN
        self.look(folder, place, looks, waiting)

    def look(self, folder: Folder, place: int, status: os.stat_result, waiting: list[int]) -> None:
        """A row that does not look as it did: decide what it is now."""
        name, code = folder.names[place], folder.codes[place]
        if code in (CODE_OF["sidecar"], CODE_OF["ignored"]):
            folder.set_status(place, status)
            return
        if stat.S_ISLNK(status.st_mode):
            code = SYMLINK
        elif not stat.S_ISREG(status.st_mode):
            code = CODE_OF["special"]
        elif self._limit and status.st_size > self._limit:
            code = CODE_OF["oversize"]
        elif code != DATABASE:
            code = PLAIN
        if code != DATABASE:
            folder.databases.pop(name, None)
        folder.codes[place] = code
        folder.set_status(place, status)
        if code in STORED:
            waiting.append(place)
        else:
            folder.set_oid(place, NOTHING)

    def _rules_changed(
        self,
        rules: tuple[os.DirEntry[str], bool] | None,
        old: Folder | None,
        old_places: dict[bytes, int],
    ) -> bool:
        """Whether this directory's `.gitignore` came, went or changed."""
        was = old_places.get(RULES_FILE, -1)
        if rules is None or rules[1]:
            return was >= 0
        if was < 0 or old is None:
            return old is not None
        with contextlib.suppress(OSError):
            looks = rules[0].stat(follow_symlinks=False)
            mark = array("q", (looks.st_ctime_ns, looks.st_mtime_ns, looks.st_size, looks.st_ino))
            return mark != old.marks[WIDTH * was : WIDTH * was + WIDTH]
        return True
