"""A look at a project that keeps nothing: lists and differences store no byte, wherever they are asked for.

What is there is borrowed by links, or by copies where a disk has none, into a place that is thrown away; what
a look adds goes there. So they can also be shown where the store is read-only, full, or another user's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from safekept.core.events import silent
from safekept.core.platform.filesystems import NO_SYMBOLIC_LINKS

from ..project import project_id
from ..store.damage import NAME as DAMAGE
from ..store.refs import PREFIX
from ..store.repository import DIRECTORIES, IDENTITY
from ..store.store import Store

#: What is known of a project; with its cache a look costs a walk, and no file is read that is as it was.
_RECORDS = ("project", "ledger", "rollback.jsonl", "cache", "packs", "named", "hidden")
#: What makes the place a repository; of its own they would be made durable, which takes longer than a look.
_REPOSITORY = ("HEAD", "config", "info/attributes", IDENTITY)


@contextlib.contextmanager
def borrowed(store: Store, project: str) -> Iterator[Store]:
    """A store that reads what this one holds of one project, and keeps nothing. Raises OSError."""
    place = tempfile.mkdtemp(prefix="safekept-readonly-view-")
    try:
        _borrow(store, project, place)
        with Store.open(place, listener=silent) as throwaway:
            yield throwaway
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _borrow(store: Store, project: str, place: str) -> None:
    own = os.path.join(place, "store")
    objects = os.path.join(own, "objects")
    for name in DIRECTORIES:
        os.makedirs(os.path.join(own, name))
    for name in _REPOSITORY:
        with contextlib.suppress(OSError):
            shutil.copyfile(os.path.join(store.repository, name), os.path.join(own, name))
    with contextlib.suppress(OSError):
        shutil.copyfile(os.path.join(store.directory, DAMAGE), os.path.join(place, DAMAGE))
    real = os.path.join(store.repository, "objects")
    for name in os.listdir(real):
        if len(name) == 2:
            _link(os.path.join(real, name), os.path.join(objects, name))
    for name in os.listdir(os.path.join(real, "pack")):
        if name.startswith("pack-"):
            _link(os.path.join(real, "pack", name), os.path.join(objects, "pack", name))
    identity = project_id(project)
    os.makedirs(os.path.join(own, PREFIX, identity))
    refs = sorted(store.refs.of(identity).items())
    with open(os.path.join(own, "packed-refs"), "w", encoding="utf-8") as file:
        file.write("# pack-refs with: peeled fully-peeled sorted \n")
        file.writelines(f"{commit} {PREFIX}/{identity}/{name}\n" for name, commit in refs)
    records = os.path.join(place, "projects", identity)
    os.makedirs(records)
    for name in _RECORDS:
        with contextlib.suppress(OSError):
            shutil.copyfile(
                os.path.join(store.directory, "projects", identity, name), os.path.join(records, name)
            )


def _link(real: str, name: str) -> None:
    try:
        os.symlink(real, name)
    except OSError as error:
        if error.errno not in NO_SYMBOLIC_LINKS:
            raise
        if os.path.isdir(real):
            shutil.copytree(real, name)
        else:
            shutil.copyfile(real, name)
