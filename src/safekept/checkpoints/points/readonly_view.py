"""A look at a project through a store that cannot be written: read-only, full, or somebody else's.

What is there is borrowed by links into a place that is thrown away; what a look adds goes there. So a list
and a difference can be shown where nothing can be kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator

from safekept.core.events import silent

from ..project import project_id
from ..store.repository import IDENTITY
from ..store.store import Store

_RECORDS = ("project", "ledger", "rollback.jsonl")


@contextlib.contextmanager
def borrowed(store: Store, project: str) -> Iterator[Store]:
    """A store that reads what this one holds of one project, and keeps nothing. Raises OSError."""
    place = tempfile.mkdtemp(prefix="safekept-glance-")
    try:
        _borrow(store, project, place)
        with Store.open(place, listener=silent) as throwaway:
            yield throwaway
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _borrow(store: Store, project: str, place: str) -> None:
    objects = os.path.join(place, "store", "objects")
    os.makedirs(os.path.join(objects, "pack"))
    os.makedirs(os.path.join(place, "store", os.path.dirname(IDENTITY)))
    real = os.path.join(store.repository, "objects")
    for name in os.listdir(real):
        if len(name) == 2:
            os.symlink(os.path.join(real, name), os.path.join(objects, name))
    for name in os.listdir(os.path.join(real, "pack")):
        if name.startswith("pack-"):
            os.symlink(os.path.join(real, "pack", name), os.path.join(objects, "pack", name))
    identity = project_id(project)
    refs = os.path.join(place, "store", "refs", "safekept", identity)
    os.makedirs(refs)
    for name, commit in store.refs.of(identity).items():
        with open(os.path.join(refs, name), "w", encoding="ascii") as file:
            file.write(commit + "\n")
    records = os.path.join(place, "projects", identity)
    os.makedirs(records)
    for name in _RECORDS:
        with contextlib.suppress(OSError):
            shutil.copyfile(
                os.path.join(store.directory, "projects", identity, name), os.path.join(records, name)
            )
