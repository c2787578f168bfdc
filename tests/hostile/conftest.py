"""What every attack starts from: a throwaway user, and `safekept` within bounds."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from support.commands.bounded import Bounded, bounded_safekept
from support.commands.error_texts import error_code


@pytest.fixture
def run(launcher_environment: dict[str, str]) -> Callable[..., Bounded]:
    """Runs `safekept` for the throwaway user: it must end within ten seconds and 300 MB."""
    environment = {**launcher_environment, "SAFEKEPT_HELPER": "0"}

    def call(*words: object, **options: object) -> Bounded:
        extra = options.pop("env", {})
        assert isinstance(extra, dict)
        options.setdefault("cwd", environment["HOME"])
        done = bounded_safekept(
            *(os.fspath(word) for word in words),  # type: ignore[call-overload]
            environment={**environment, **extra},
            **options,
        )
        # Whatever was put in its way has an error of its own.
        assert error_code(done.err) != "unexpected" and '"unexpected"' not in done.out, (words, done)
        return done

    return call


@pytest.fixture
def project(tmp_path: object) -> str:
    """A small project with a repository, as an agent works in."""
    place = os.path.join(str(tmp_path), "user", "code", "project")
    os.makedirs(os.path.join(place, ".git", "info"))
    files = {
        "main.py": "print('hello')\n",
        ".git/HEAD": "ref: refs/heads/main\n",
        ".git/config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
        "src/one.py": "one = 1\n",
    }
    os.makedirs(os.path.join(place, ".git", "objects"))
    os.makedirs(os.path.join(place, ".git", "refs", "heads"))
    for name, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(place, name)), exist_ok=True)
        with open(os.path.join(place, name), "w") as file:
            file.write(text)
    return place
