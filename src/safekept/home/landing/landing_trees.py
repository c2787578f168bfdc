"""The trees that one landing works on, opened together: its roots, what is staged, what is kept."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType
from typing import Self

from .area import LandingDirectory
from .record import Root, Step
from .tree import LandingTree


class LandingTrees:
    """Roots by number, `staged/`, and a tree per root in `replaced/` and `set-aside/`."""

    def __init__(self, directory: LandingDirectory, roots: list[Root]) -> None:
        self.directory = directory
        self.roots = roots
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            self.targets = [stack.enter_context(LandingTree(root.base)) for root in roots]
            os.makedirs(directory.staged, 0o700, exist_ok=True)
            self.staged = stack.enter_context(LandingTree(directory.staged))
            self.replaced = [self._kept(stack, directory.replaced, root) for root in roots]
            self._stack = stack.pop_all()
        self._set_aside: dict[int, LandingTree] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def target(self, step: Step) -> LandingTree:
        return self.targets[step.root]

    def kept(self, step: Step) -> LandingTree:
        return self.replaced[step.root]

    def set_aside(self, root: int) -> LandingTree:
        """Made only when it is needed: its presence means that something was set aside."""
        if root not in self._set_aside:
            self._set_aside[root] = self._kept(self._stack, self.directory.set_aside, self.roots[root])
        return self._set_aside[root]

    def was_set_aside(self, root: int, path: str) -> bool:
        """Whether an earlier attempt set this aside; makes nothing."""
        if not os.path.isdir(os.path.join(self.directory.set_aside, self.roots[root].label)):
            return False
        return self.set_aside(root).look(path) is not None

    def _kept(self, stack: contextlib.ExitStack, place: str, root: Root) -> LandingTree:
        path = os.path.join(place, root.label)
        for made in (place, path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(made, 0o700)
        return stack.enter_context(LandingTree(path, make=True))
