"""The live home as files, for a look: no link is followed, and nothing is waited for."""

from __future__ import annotations

import os
from collections.abc import Iterator

from safekept.core.entries import CHUNK
from safekept.core.files.small import open_regular
from safekept.core.files.tree import LinkSafeTree


class LiveFiles:
    """What lies below one home now; a file that goes meanwhile is one that is not there."""

    def __init__(self, home: str) -> None:
        self._home = home

    def paths(self, below: str) -> Iterator[str]:
        """Every regular file below a directory of the home, in order."""
        try:
            tree = LinkSafeTree(self._home, follow=True)
        except OSError:
            return
        with tree:
            waiting = [below]
            while waiting:
                directory = waiting.pop()
                try:
                    inside = _entries(tree, directory)
                except OSError:
                    continue
                waiting += [
                    f"{directory}/{one.name}" for one in reversed(inside) if one.is_dir(follow_symlinks=False)
                ]
                yield from (f"{directory}/{one.name}" for one in inside if one.is_file(follow_symlinks=False))

    def chunks(self, path: str) -> Iterator[bytes]:
        try:
            with LinkSafeTree(self._home, follow=True) as tree:
                parent, name = tree.parent(path)
                descriptor = open_regular(name, dir_fd=parent, follow=False)
            with os.fdopen(descriptor, "rb", buffering=0) as file:
                while chunk := file.read(CHUNK):
                    yield chunk
        except OSError:
            return

    def has(self, path: str) -> bool:
        """Whether anything is under this name."""
        try:
            with LinkSafeTree(self._home, follow=True) as tree:
                return tree.look(path) is not None
        except OSError:
            return False


def _entries(tree: LinkSafeTree, directory: str) -> list[os.DirEntry[str]]:
    # What a tree holds open leads on, and cannot always be listed.
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=tree.directory(directory))
    try:
        with os.scandir(descriptor) as found:
            return sorted(found, key=lambda one: one.name)
    finally:
        os.close(descriptor)
