"""The real restic on one repository."""

from __future__ import annotations

import os
import subprocess


class Restic:
    """Runs restic on one repository with one password."""

    def __init__(self, program: str, repository: str, password: str, cache: str) -> None:
        self.program, self.repository, self.password, self.cache = program, repository, password, cache

    def __call__(self, *words: str, cwd: str | None = None) -> str:
        done = self.run(*words, cwd=cwd)
        assert done.returncode == 0, f"restic {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run(
        self, *words: str, cwd: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        settings = {
            **os.environ,
            "RESTIC_REPOSITORY": self.repository,
            "RESTIC_PASSWORD": self.password,
            "RESTIC_CACHE_DIR": self.cache,
            **environment,
        }
        return subprocess.run(
            [self.program, *words], env=settings, cwd=cwd, capture_output=True, text=True, timeout=120
        )
