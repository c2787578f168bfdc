"""What a tool may touch, as far as its name tells: nothing, named files, or anything.

Only tools that are known to leave files alone are let through without a checkpoint, and only those that
are known to write nothing but the files they name are taken at their word. Every other tool, one of an MCP
server or of a newer host among them, is treated like a shell command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .event import Event
from .patch_text import is_patch, paths_in

#: What hosts call the field that names a file, in the order of trust.
PATH_KEYS = (
    "file_path",
    "notebook_path",
    "filePath",
    "path",
    "target_file",
    "target_notebook",
    "absolute_path",
)


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of one host. `patches`: tool -> the fields that may hold the text of a patch."""

    reads: frozenset[str]
    writes: frozenset[str]
    patches: Mapping[str, tuple[str, ...]]
    path_keys: tuple[str, ...] = PATH_KEYS

    def touched(self, tool: str, given: Event) -> Touched:
        """What a call of this tool may change."""
        if tool in self.reads:
            return Touched()
        fields = self.patches.get(tool, ())
        named = tuple(path for field in fields for path in paths_in(given.command(field)))
        if named:
            return Touched(named)
        if tool in self.writes and (path := given.path(*self.path_keys)):
            return Touched((path,))
        return Touched(_patched_by(given.command()), shell=True)  # noqa: S604 - a field


@dataclass(frozen=True, slots=True)
class Touched:
    """Files by name, or anything at all (`shell`); neither: nothing."""

    paths: tuple[str, ...] = ()
    shell: bool = False

    @property
    def anything(self) -> bool:
        return self.shell or bool(self.paths)


def _patched_by(command: str) -> tuple[str, ...]:
    """A shell command may carry a patch: its files are named too, since a full pass leaves ignored ones."""
    return paths_in(command) if is_patch(command) else ()
