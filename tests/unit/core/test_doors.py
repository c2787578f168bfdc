"""What makes a command start sooner changes nothing that it sees."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from types import ModuleType

import pytest

from safekept.core import doors as module

TEXTS = (
    "",
    "one line",
    "   spaces before it  ",
    "first\n    second\n      third\n",
    "\n\n    begins late\n\n      deeper\n    ends\n\n",
    "\n  \n\t a tab and spaces\n   \tanother\n",
    "first\n\n",
    "    first\nno indent\n  some",
    "   ",
    "a\n   \n  b",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_freed_of_its_indentation_as_the_standard_library_does_it(text):
    assert module.cleandoc(text) == inspect.cleandoc(text)


@pytest.fixture
def put_off(monkeypatch):
    """`inspect` as a command meets it."""
    monkeypatch.delitem(sys.modules, "inspect")
    module.put_off_inspect()
    return sys.modules["inspect"]


def test_every_name_of_it_is_there_when_it_is_asked_for(put_off):
    assert type(put_off) is module.Later and put_off.cleandoc is module.cleandoc
    assert "signature" not in vars(put_off), "nothing of it was loaded"
    from inspect import signature

    assert str(signature(lambda one, two=2: None)) == "(one, two=2)"
    assert type(put_off) is ModuleType and put_off.cleandoc is not module.cleandoc
    with pytest.raises(AttributeError, match="module 'inspect' has no attribute 'nothing'"):
        put_off.nothing


def test_threads_that_ask_at_once_all_get_it(put_off):
    found, together = [], threading.Barrier(8)

    def ask() -> None:
        together.wait()
        found.append(put_off.isfunction)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [put_off.isfunction] * 8


def test_one_that_is_loaded_stays_as_it_is():
    before = sys.modules["inspect"]
    module.put_off_inspect()
    assert sys.modules["inspect"] is before


def test_a_command_does_not_load_it():
    code = (
        "import sys, os; sys.argv = ['safekept', '--help']\n"
        "from safekept import __main__\n"
        "os._exit = lambda code: None\n"
        "__main__.main()\n"
        "print('loaded:', [name for name in ('ast', 'dis', 'tokenize') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.endswith("loaded: []\n") and "Usage:" in done.stdout, done.stdout + done.stderr
