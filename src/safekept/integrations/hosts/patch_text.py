"""Which files a patch names: the envelope of Codex, Hermes and opencode, and plain unified diffs.

A move names both its ends. Headers may be indented. What cannot be read names nothing, and a patch that
names nothing is treated like a command.
"""

from __future__ import annotations

from safekept.integrations.hermes.plugin.patches import named_in

from .event import fit_path

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
