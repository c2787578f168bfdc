"""One checkpoint in the making: look, read what changed, write it as one pack, name it.

The order is objects, ref, cache. A kill at any point loses at most what was not yet reported: objects
without a ref belong to none, and a cache that was not written describes an older checkpoint just as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from safekept.core.events import Event, Listener

from ..checkpoint import NUMBERED, Checkpoint, Skipped
from ..project import project_id
from ..scan.cache import Cache, View
from ..scan.ignore import Ignore
from ..scan.rules import Rules
from ..scan.trust import Trust
from ..scan.walk import ProjectWalk, TooMany
from ..store.metadata import about, from_facts, git_head, message
from ..store.objects import DIRECTORY, FILE, NOTHING, encode_commit, encode_tree
from ..store.pack_writer import PackWriter
from ..store.repositories.taking import RepositoryLook
from ..store.store import Store
from .named import Named, NamedRecord, relative_names
from .objects import Gather, Trees
from .taken import Seen, Taken, TakeSettings, project_gone, too_many_files

if TYPE_CHECKING:
    from ..scan.hidden_look import HiddenLook

#: From so many files on it pays to look whether the store has them already.
_WORTH_A_LOOK = 100
_NAMED = 3  # of the paths that are left out, for each reason
_LISTED = 100  # skipped paths that `about.json` names; all are in the trees


class Making:
    """One checkpoint in the making, under the project's lock."""

    def __init__(
        self,
        store: Store,
        project: str,
        directory: str,
        root: int,
        settings: TakeSettings,
        listener: Listener,
    ) -> None:
        self.store, self.project, self.directory, self.root = store, project, directory, root
        self.settings, self.listener = settings, listener
        self.raw = os.fsencode(project)
        secret = settings.guard.secrets(project) if settings.guard is not None else None
        self.rules = Rules(settings.exclusions, self.raw, secret)
        self.trust = Trust(store, project, directory, listener)
        self.skipped: list[Skipped] = []
        self.remarks: list[str] = []
        self.names: list[str] = []
        self.tracked: tuple[bytes, ...] = ()  # by the user's own repository, though ignored
        self.learned = False  # something that is worth writing down though nothing changed
        self.dirty: set[bytes] = set()
        self.pending: dict[bytes, set[bytes]] = {}
        self.files = 0
        self.written = 0

    def take(
        self, start: Checkpoint, names: Sequence[str], passing: bool, walked: bool, always: bool
    ) -> Taken:
        """`start` is the checkpoint as far as the caller knows it. `passing`: look at all that is known,
        and with `walked` at all that is there."""
        cache = self.trust.cache()
        facts = cache.facts
        self.files = facts.files
        view = View(cache)
        hidden = None
        if passing:
            self._walk(cache, view, not walked)
            hidden = self._look_at_hidden(view) if walked else None
            start = replace(start, hidden=hidden.id if hidden is not None else "")
        self._named(view, start, names, passing)
        checkpoint = None
        repository = RepositoryLook(self.store, self.project, facts.repository, self.settings, start.kind)
        nested = [os.fsdecode(name) for name in view.repositories()] if passing else None
        with PackWriter(self.store.objects.pack_directory, self.directory, self.settings.durable) as writer:
            repository.look(nested)
            gather = self._read(writer, view)
            trees = Trees(writer, view)
            trees.build(self.dirty, facts.tree or NOTHING, facts.meta or NOTHING)
            if passing:
                facts.skipped = view.counts()
            facts.files = self.files
            if trees.changed or repository.changed or always or not _says_the_same(start, facts.latest):
                checkpoint = replace(start, files=self.files, skipped=sum(facts.skipped.values()))
                checkpoint = self._write(writer, checkpoint, trees, facts.skipped, repository.store(writer))
                self._name(checkpoint)
                facts.base, facts.latest = checkpoint.id, checkpoint.as_dict()
                facts.tree, facts.meta = trees.tree, trees.meta
            else:
                view.take_back()
        self.learned = self.learned or facts.repository != repository.facts
        facts.repository = repository.facts
        self.remarks += repository.remarks
        facts.store, facts.project = self.store.identity, self.raw
        # The checkpoint is there. What is beside it may fail: the next pass then looks more closely.
        with contextlib.suppress(OSError):
            touched = view.touched
            view.settle()
            if checkpoint is not None or touched or self.learned:
                cache.write()
            if checkpoint is not None:
                self.store.note([checkpoint])
        latest = from_facts(facts.latest, str(facts.latest["commit"])) if facts.latest else None
        return Taken(
            checkpoint,
            checkpoint or latest,
            tuple(self.skipped + gather.lost),
            tuple(self.trust.remarks + self.remarks + gather.remarks),
            dict(facts.skipped),
            gather.read,
            len(self.trust.packs),
            written=self.written,
            hidden=hidden,
            left_out={
                reason: tuple(map(os.fsdecode, paths))
                for reason, paths in (view.left_out(_NAMED) if passing else {}).items()
            },
            repositories=tuple(map(os.fsdecode, view.repositories())) if passing else (),
        )

    def _walk(self, cache: Cache, view: View, partial: bool) -> None:
        settings, facts = self.settings, cache.facts
        with Ignore(self.raw, self.store.repository) as ignore:
            fingerprint = hashlib.sha256(
                repr((self.rules.fingerprint(), settings.max_file_size, settings.use_ignore)).encode()
                + ignore.fingerprint()
            ).digest()
            asking = ignore if settings.use_ignore else None
            walk = ProjectWalk(cache, self.rules, asking, settings.max_file_size, settings.max_files)
            try:
                walk.run(self.root, self._own_directories(), fingerprint != facts.rules, partial)
            except TooMany:
                raise too_many_files(self.project, settings.max_files) from None
            except OSError as error:
                raise project_gone(self.project, error) from error
            if settings.use_ignore and not partial:
                index = ignore.index_looks()
                if index != facts.index or (index and ignore.found):
                    facts.index, facts.tracked = index, tuple(ignore.tracked()) if index else ()
                    self.learned = True
                self.tracked = facts.tracked
            if not ignore.available:
                why = "git did not answer in time" if ignore.silent else "git is not on this machine"
                self.remarks.append(f"{why}: the rules of .gitignore were not applied")
                fingerprint = b""
            for rules in sorted(ignore.unreadable):
                name = os.fsdecode(rules)
                self.remarks.append(f"{name} is no file of rules: nothing below it counts as ignored")
                fingerprint = b""
        self.dirty, self.files = walk.dirty, walk.files
        self.skipped += walk.lost
        self.pending = {path: set(names) for path, names in walk.pending.items()}
        view.walked(walk.folders)
        facts.rules = fingerprint
        self.listener(Event("scan", walk.files, walk.files, unit="files", path=self.project))

    def look(self) -> Seen:
        """A pass of which nothing is kept, and what is hidden."""
        cache = self.trust.cache()
        view = View(cache)
        self._walk(cache, view, False)
        size = sum(folder.size() for _, folder in view.folders())
        return Seen(self.files, size, self._look_at_hidden(view))

    def _look_at_hidden(self, view: View) -> HiddenLook | None:
        """What the visible half does not hold; its trouble is never that of the visible half."""
        limits = self.settings.hidden
        if limits is None:
            return None
        from ..scan.hidden import look_at_hidden

        limits = replace(limits, avoid=(*limits.avoid, self.store.directory))
        with contextlib.suppress(OSError):
            return look_at_hidden(self.root, self.directory, view, self.rules, limits)
        return None

    def _named(self, view: View, start: Checkpoint, names: Sequence[str], passing: bool) -> None:
        relative, outside = relative_names(self.project, names)
        self.skipped += outside
        record = NamedRecord(self.store, self.project, self.directory)
        earlier = [name for name in record.names if name not in relative]
        record.add(relative)
        named = Named(view, self.rules, self.settings.max_file_size)
        named.know(self.root)
        for path in relative:
            named.look(self.root, path)
        self.skipped += named.skipped
        if passing or start.kind in ("after", "undo"):
            # What was named before may have been absent, and then nothing else leads to it. What the
            # user's own repository tracks counts as named.
            for path in (*earlier, *self.tracked):
                if not passing or _unseen(view, path):
                    named.look(self.root, path)
            if not start.full:
                relative += earlier
        self.names = [os.fsdecode(path) for path in relative]
        self.files += named.files
        self.dirty |= named.dirty
        for path, wanted in named.pending.items():
            self.pending.setdefault(path, set()).update(wanted)
        # Directories that went away between the pass and the look at names.
        self.dirty = {path for path in self.dirty if view.get(path) is not None}
        self.pending = {path: wanted for path, wanted in self.pending.items() if view.get(path) is not None}

    def _read(self, writer: PackWriter, view: View) -> Gather:
        limit = self.settings.max_file_size
        twin = self.settings.guard.is_twin if self.settings.guard is not None else None
        gather = Gather(self.root, self.raw, writer, self.directory, limit, self.listener, twin)
        if self.trust.packs and sum(map(len, self.pending.values())) >= _WORTH_A_LOOK:
            # Another worktree of the same project has most of it. Nothing that is found can go away
            # while we are known as writers (see `writing`), but a pack may have gone before.
            self.store.objects.refresh()
            writer.reuse = self.store.objects.__contains__
            self.trust.record(self.trust.packs)
        for path, names in self.pending.items():
            folder = view.own(path)
            before = view.before(path)
            if before is not None:
                # Files that are only looked at again, for being fresh, are not stored again.
                writer.known.update(before.oid(at) for at, name in enumerate(before.names) if name in names)
            stored = folder.stored()
            gather.fill(folder, path, names)
            self.files += folder.stored() - stored
            self.dirty.add(path)
        return gather

    def _write(
        self,
        writer: PackWriter,
        checkpoint: Checkpoint,
        trees: Trees,
        counts: dict[str, int],
        repository: bytes,
    ) -> Checkpoint:
        """The objects that make a tree a checkpoint; afterwards the pack is part of the store."""
        described = about(
            checkpoint,
            agent=self.settings.agent,
            git_head=git_head(self.raw),
            named=self.names,  # what a named-only point speaks for, present or absent
            not_stored=counts,
            named_not_stored=[{"path": item.path, "reason": item.reason} for item in self.skipped[:_LISTED]],
        )
        entries = [(FILE, b"about.json", writer.add(b"blob", described)), (DIRECTORY, b"meta", trees.meta)]
        if trees.tree != NOTHING:
            entries.append((DIRECTORY, b"files", trees.tree))
        if repository != NOTHING:
            entries.append((DIRECTORY, b"repository", repository))
        tree = writer.add(b"tree", encode_tree(entries))
        commit = encode_commit(tree, checkpoint.time_ns // 10**9, message(checkpoint))
        checkpoint = replace(checkpoint, commit=writer.add(b"commit", commit).hex())
        self.store.belt.open(self.store.objects.pack_directory)
        pack = os.path.basename(writer.finish())
        self.trust.add(pack)
        self.written = writer.size
        return checkpoint

    def _name(self, checkpoint: Checkpoint) -> None:
        self.store.open_refs(project_id(self.project))
        self.store.refs.create(
            project_id(self.project), checkpoint.id, checkpoint.commit, self.directory, self.settings.durable
        )

    def _own_directories(self) -> set[tuple[int, int]]:
        status = os.stat(self.store.directory)
        return {(status.st_dev, status.st_ino)}


def _unseen(view: View, path: bytes) -> bool:
    """Whether a pass that was just made says nothing of a named file, present or absent."""
    parent, _, name = path.rpartition(b"/")
    folder = view.get(parent)
    if folder is None or (folder.partial and name not in folder.names):
        return True
    return folder.hidden.get(name, ("", 0))[0] in ("excluded", "ignored")


def _says_the_same(start: Checkpoint, latest: Mapping[str, object]) -> bool:
    """Whether a point that differs in nothing from the last one has nothing of its own to say.

    Turns are bracketed by *before* points and *after* marks: what follows a mark is the user's, what
    follows a before point is the agent's. So one never stands in for the other, though nothing
    changed in between. A named-only point cannot know that nothing changed. Where two sessions are at
    work, the turn of each begins with a point of its own.
    """
    kind = latest.get("kind")
    if start.hidden and start.hidden != latest.get("hidden"):
        return False
    if start.kind in ("before", "after") and latest.get("session") != start.session:
        return False
    if start.kind == "before":
        return start.full and kind in NUMBERED
    return kind == "after" if start.kind == "after" else bool(kind)
