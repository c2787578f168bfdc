"""`safekept --version` tells two commits apart: in a clone, a worktree, after a `git gc`, in a wheel."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib

import pytest

from safekept import __version__
from safekept.core.versions import BUILT_FROM, version_text
from support.places import CHECKOUT


@pytest.fixture
def checkout(tmp_path):
    place = tmp_path / "clone"
    (place / "src" / "safekept").mkdir(parents=True)
    (place / "src" / "safekept" / "__init__.py").write_text("")
    git(place, "init", "-q", "-b", "topic/one")
    return place


def git(place, *words: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *who, *words], cwd=place, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(place, text: str) -> str:
    (place / "src" / "safekept" / "a.py").write_text(text)
    git(place, "add", "-A")
    git(place, "commit", "-qm", text)
    return git(place, "rev-parse", "HEAD")


def said(place) -> str:
    return version_text(os.path.join(place, "src", "safekept"))


def test_two_commits_of_a_clone_are_told_apart_also_packed_and_detached(checkout):
    assert said(checkout) == __version__, "no commit yet"
    first, second = commit(checkout, "1"), commit(checkout, "2")
    assert said(checkout) == f"{__version__} ({second[:12]})"
    git(checkout, "pack-refs", "--all")
    assert not (checkout / ".git" / "refs" / "heads" / "topic" / "one").exists()
    assert said(checkout) == f"{__version__} ({second[:12]})"
    git(checkout, "checkout", "-q", first)
    assert said(checkout) == f"{__version__} ({first[:12]})"


def test_a_worktree_says_its_own_commit(checkout, tmp_path):
    first = commit(checkout, "1")
    git(checkout, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    second = commit(tmp_path / "tree", "2")
    assert (said(checkout), said(tmp_path / "tree")) == (
        f"{__version__} ({first[:12]})",
        f"{__version__} ({second[:12]})",
    )


def test_a_wheel_says_what_it_was_built_from_and_a_stranger_repository_above_it_says_nothing(tmp_path):
    package = tmp_path / "repository" / "site-packages" / "safekept"
    package.mkdir(parents=True)
    git(tmp_path / "repository", "init", "-q")
    git(tmp_path / "repository", "commit", "-q", "--allow-empty", "-m", "theirs")
    assert version_text(str(package)) == __version__
    (package / BUILT_FROM).write_text(f"{'ab' * 20} with changes\n")
    assert version_text(str(package)) == f"{__version__} (abababababab with changes)"
    (package / BUILT_FROM).write_text("\x1b[31m\n")
    assert version_text(str(package)) == __version__, "what is no commit is not shown"


def test_everything_that_the_code_imports_is_a_dependency_of_the_package_or_of_an_extra():
    """A wheel brings what is declared, and nothing else of whoever built it."""
    with open(os.path.join(CHECKOUT, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["mcp"]]
    declared += project["optional-dependencies"]["ui"]
    names = {re.split(r"[<>=\[ ]", one)[0].lower().replace("-", "_") for one in declared}
    provided = {"ruamel": "ruamel.yaml", "pydantic": "mcp", "anyio": "mcp", "mcp_types": "mcp"}
    provided["markupsafe"] = "jinja2"
    missing = set()
    for place, _, files in os.walk(os.path.join(CHECKOUT, "src", "safekept")):
        for name in (one for one in files if one.endswith(".py")):
            with open(os.path.join(place, name), encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                found = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    found = [node.module]
                missing |= {one.split(".")[0] for one in found}
    missing -= {"safekept", *sys.stdlib_module_names, *names}
    assert {provided.get(one, one) for one in missing} <= names | {"hermes_cli"}, missing
