"""What a tool may touch, as far as its name tells: nothing, named files, or anything.

Only tools that are known to leave files alone are let through without a checkpoint, and only those that
are known to write nothing but the files they name are taken at their word. Every other tool, one of an MCP
server or of a newer host among them, is treated like a shell command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..hermes.plugin.patches import named_in
from .event import Event, fit_path

# Which files a patch names: the envelope of Codex, Hermes and opencode, and plain unified diffs. A move
# names both its ends. Headers may be indented. What cannot be read names nothing, and a patch that names
# nothing is treated like a command.

#: More names than anybody patches at once: beyond it the full pass has to do.
_MOST = 2000


def paths_in(text: str) -> tuple[str, ...]:
    """Every file that a patch would change, make or remove, each once."""
    names = [*named_in(text), *(name for line in text.splitlines() if (name := _named(line.lstrip())))]
    return tuple(dict.fromkeys(fit_path(name) for name in names if name != "/dev/null"))[:_MOST]


def is_patch(text: str) -> bool:
    return "*** Begin Patch" in text


def _named(line: str) -> str:
    """What a line of a unified diff names."""
    if line.startswith(("--- ", "+++ ")):
        path = line[4:].split("\t")[0].strip()
        return path[2:] if path.startswith(("a/", "b/")) else path
    if line.startswith(("rename from ", "rename to ")):
        return line.partition(" ")[2].partition(" ")[2].strip()
    return ""


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
