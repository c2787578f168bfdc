"""Says in a wheel which commit it was built from, so that `safekept --version` tells two builds apart.

hatchling runs this. A source archive brings the same file along, for whoever builds a wheel where there is
no git.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NAME = os.path.join("safekept", "built_from.txt")


class BuildHook(BuildHookInterface):  # type: ignore[type-arg, unused-ignore]
    """Puts `built_from.txt` beside the code."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.path.exists(os.path.join(self.root, "src", _NAME)):
            return  # a checkout speaks for itself; a source archive has it
        text = commit_of(self.root)
        if not text:
            return
        descriptor, path = tempfile.mkstemp(prefix="safekept-built-from-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.chmod(path, 0o644)
        self._written = path
        inside = os.path.join("src", _NAME) if self.target_name == "sdist" else _NAME
        build_data["force_include"][path] = inside

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        path = getattr(self, "_written", "")
        if path:
            os.unlink(path)


def commit_of(root: str) -> str:
    """The commit, and whether files differ from it; nothing where git does not know."""
    # Asked of this checkout only: a source archive may lie inside somebody else's repository.
    if not os.path.exists(os.path.join(root, ".git")):
        return ""
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return f"{commit} with changes" if _git(root, "status", "--porcelain", "--", "src", "man") else commit
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(root: str, *words: str) -> str:
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()
