"""One checkpoint in the making: look, read what changed, write it as one pack, name it.

The order is objects, ref, cache. A kill at any point loses at most what was not yet reported: objects
without a ref are nobody's, and a cache that was not written describes an older checkpoint just as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.core.events import Event, Listener

from .about import about, from_facts, git_head, message
from .cache import Cache
from .checkpoint import NUMBERED, Checkpoint, Skipped
from .gather import Gather
from .ignore import Ignore
from .named import Named, relative_names
from .objects import DIRECTORY, FILE, NOTHING, encode_commit, encode_tree
from .pack_record import add_to_record, read_record, write_record
from .pack_writer import PackWriter
from .project import project_id
from .rules import Rules
from .store import Store
from .taken import Taken, TakeSettings, project_gone, too_many_files
from .trees import Trees
from .view import View
from .walk import TooMany, Walk

#: From so many files on it pays to look whether the store has them already.
_WORTH_A_LOOK = 100
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
        self.rules = Rules(settings.exclusions)
        self.packs: set[str] = set()
        self.skipped: list[Skipped] = []
        self.remarks: list[str] = []
        self.names: list[str] = []
        self.dirty: set[bytes] = set()
        self.pending: dict[bytes, set[bytes]] = {}
        self.files = 0
        self.written = 0

    def take(
        self, start: Checkpoint, names: Sequence[str], passing: bool, walked: bool, always: bool
    ) -> Taken:
        """`start` is the checkpoint as far as the caller knows it. `passing`: look at all that is known,
        and with `walked` at all that is there."""
        cache = self._cache()
        facts = cache.facts
        self.files = facts.files
        view = View(cache)
        if passing:
            self._walk(cache, view, not walked)
        self._named(view, names)
        checkpoint = None
        with PackWriter(self.store.objects.pack_directory, self.directory, self.settings.durable) as writer:
            gather = self._read(writer, view)
            trees = Trees(writer, view)
            trees.build(self.dirty, facts.tree or NOTHING, facts.meta or NOTHING)
            if passing:
                facts.skipped = view.counts()
            facts.files = self.files
            if trees.changed or always or not _says_the_same(start, facts.latest):
                checkpoint = replace(start, files=self.files, skipped=sum(facts.skipped.values()))
                checkpoint = self._write(writer, checkpoint, trees, facts.skipped)
                self._name(checkpoint)
                facts.base, facts.latest = checkpoint.id, checkpoint.as_dict()
                facts.tree, facts.meta = trees.tree, trees.meta
            else:
                view.take_back()
        facts.store, facts.project = self.store.identity, self.raw
        # The checkpoint is there. What is beside it may fail: the next pass then looks more closely.
        with contextlib.suppress(OSError):
            touched = view.touched
            view.settle()
            if checkpoint is not None or touched:
                cache.write()
            if checkpoint is not None:
                self.store.note([checkpoint])
        latest = from_facts(facts.latest, str(facts.latest["commit"])) if facts.latest else None
        return Taken(
            checkpoint,
            checkpoint or latest,
            tuple(self.skipped + gather.lost),
            tuple(self.remarks + gather.remarks),
            dict(facts.skipped),
            gather.read,
            len(self.packs),
            written=self.written,
        )

    def _cache(self) -> Cache:
        """What is known from last time; nothing where it cannot be trusted."""
        cache = Cache.read(self.directory)
        facts = cache.facts
        self.packs = self.store.objects.pack_names()
        if not facts.base:
            cache.clear()
            write_record(self.directory, ())
            return cache
        ref = self.store.refs.get(project_id(self.project), facts.base)
        sound = (
            facts.store == self.store.identity
            and facts.project == self.raw
            and ref is not None
            and ref == facts.latest.get("commit")
        )
        recorded = read_record(self.directory)
        if sound and (recorded is None or not recorded <= self.packs):
            # Packs went: by maintenance, or lost. Whether anything is missing is looked up once.
            sound = self._nothing_missing(cache, str(ref))
            if sound:
                write_record(self.directory, self.packs)
        if not sound:
            cache.clear()
            write_record(self.directory, ())
        return cache

    def _nothing_missing(self, cache: Cache, commit: str) -> bool:
        facts = cache.facts
        wanted = {bytes.fromhex(commit), facts.meta} | ({facts.tree} - {NOTHING})
        for path in cache.paths():
            folder = cache.get(path)
            if folder is not None:
                wanted |= folder.objects()
        self.store.objects.refresh()
        missing = self.store.objects.missing(wanted)
        if missing:
            text = f"{len(missing)} objects of the last checkpoint are missing: everything is read anew"
            self.listener(Event("store", path=self.project, text=text))
            self.remarks.append(text)
        return not missing

    def _walk(self, cache: Cache, view: View, partial: bool) -> None:
        settings, facts = self.settings, cache.facts
        with Ignore(self.raw, self.store.repository) as ignore:
            fingerprint = hashlib.sha256(
                repr((self.rules.fingerprint(), settings.max_file_size, settings.use_ignore)).encode()
                + ignore.fingerprint()
            ).digest()
            asking = ignore if settings.use_ignore else None
            walk = Walk(cache, self.rules, asking, settings.max_file_size, settings.max_files)
            try:
                walk.run(self.root, self._own_directories(), fingerprint != facts.rules, partial)
            except TooMany:
                raise too_many_files(self.project, settings.max_files) from None
            except OSError as error:
                raise project_gone(self.project, error) from error
            if not ignore.available:
                self.remarks.append("git is not on this machine: the rules of .gitignore were not applied")
                fingerprint = b""
        self.dirty, self.files = walk.dirty, walk.files
        self.pending = {path: set(names) for path, names in walk.pending.items()}
        view.walked(walk.folders)
        facts.rules = fingerprint
        self.listener(Event("scan", walk.files, walk.files, unit="files", path=self.project))

    def _named(self, view: View, names: Sequence[str]) -> None:
        relative, outside = relative_names(self.project, names)
        self.skipped += outside
        self.names = [os.fsdecode(path) for path in relative]
        named = Named(view, self.rules, self.settings.max_file_size)
        named.know(self.root)
        for path in relative:
            named.look(self.root, path)
        self.skipped += named.skipped
        self.files += named.files
        self.dirty |= named.dirty
        for path, wanted in named.pending.items():
            self.pending.setdefault(path, set()).update(wanted)

    def _read(self, writer: PackWriter, view: View) -> Gather:
        limit = self.settings.max_file_size
        gather = Gather(self.root, self.raw, writer, self.directory, limit, self.listener)
        if self.packs and sum(map(len, self.pending.values())) >= _WORTH_A_LOOK:
            # Another worktree of the same project has most of it. Nothing that is found can go away
            # while we are known as writers (see `writing`), but a pack may have gone before.
            self.store.objects.refresh()
            writer.reuse = self.store.objects.__contains__
            write_record(self.directory, self.packs)
        for path, names in self.pending.items():
            folder = view.own(path)
            stored = folder.stored()
            gather.fill(folder, path, names)
            self.files += folder.stored() - stored
            self.dirty.add(path)
        return gather

    def _write(
        self, writer: PackWriter, checkpoint: Checkpoint, trees: Trees, counts: dict[str, int]
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
        tree = writer.add(b"tree", encode_tree(entries))
        commit = encode_commit(tree, checkpoint.time_ns // 10**9, message(checkpoint))
        checkpoint = replace(checkpoint, commit=writer.add(b"commit", commit).hex())
        pack = os.path.basename(writer.finish())
        add_to_record(self.directory, pack)
        self.packs.add(pack)
        self.written = writer.size
        return checkpoint

    def _name(self, checkpoint: Checkpoint) -> None:
        self.store.refs.create(
            project_id(self.project), checkpoint.id, checkpoint.commit, self.directory, self.settings.durable
        )

    def _own_directories(self) -> set[tuple[int, int]]:
        status = os.stat(self.store.directory)
        return {(status.st_dev, status.st_ino)}


def _says_the_same(start: Checkpoint, latest: Mapping[str, object]) -> bool:
    """Whether a point that differs in nothing from the last one has nothing of its own to say.

    Turns are bracketed by *before* points and *after* marks: what follows a mark is the user's, what
    follows a before point is the agent's. So one never stands in for the other, though nothing
    changed in between. A named-only point cannot know that nothing changed.
    """
    kind = latest.get("kind")
    if start.kind == "before":
        return start.full and kind in NUMBERED
    return kind == "after" if start.kind == "after" else bool(kind)
