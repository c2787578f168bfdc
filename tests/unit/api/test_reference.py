"""The page about `import safekept` is what the code says, and its examples run."""

from __future__ import annotations

import doctest
import importlib.util
import os
import pathlib
import re
import sys
from types import ModuleType

import pytest

import safekept
from support.home.homes import make_hermes_home
from support.projects.checkpoints import put

CHECKOUT = pathlib.Path(__file__).resolve().parents[3]
PAGE = CHECKOUT / "docs" / "reference" / "python.md"


def generator() -> ModuleType:
    place = CHECKOUT / "workshop" / "python_reference.py"
    specification = importlib.util.spec_from_file_location("python_reference", place)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def examples() -> list[tuple[str, str]]:
    """The title and the code of every example of the page."""
    found = []
    title = ""
    for line in re.split(r"(?m)^(?=#|```)", PAGE.read_text(encoding="utf-8")):
        if line.startswith("#"):
            title = line.splitlines()[0].strip("# ")
        if line.startswith("```python\n>>> "):
            found.append((title, line.removeprefix("```python\n")))
    return found


EXAMPLES = examples()


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == generator().page(), (
        "run `.venv/bin/python workshop/python_reference.py`"
    )


def test_every_function_has_an_example():
    titles = {title for title, _ in EXAMPLES}
    wanted = {f"safekept.{name}" for name in safekept.__all__ if name[0].islower()}
    wanted |= {f"Checkpoints.{name}" for name in vars(safekept.Checkpoints) if name[0].islower()}
    assert wanted - titles == set()
    assert len(EXAMPLES) > 12


def test_every_name_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    missing = [name for name in safekept.__all__ if f"safekept.{name}" not in text]
    assert [name for name in missing if name not in ("__version__", "Status")] == []


@pytest.mark.parametrize(("title", "code"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_an_example_of_the_page_runs_as_printed(title, code, tmp_path, monkeypatch):
    user, project = tmp_path / "user", tmp_path / "project"
    monkeypatch.setenv("HOME", str(user))
    make_hermes_home(str(user / ".hermes"), profiles=(), awkward=False)
    put(str(project / "pyproject.toml"), "[project]\n")
    put(str(project / "parser.py"), "def parse(): ...\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    names = {"safekept": safekept, "home": user / ".hermes", "project": project, "os": os, "sys": sys}
    example = doctest.DocTestParser().get_doctest(code, names, title, str(PAGE), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    runner.run(example, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)
    assert example.examples
