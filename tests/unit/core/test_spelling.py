"""A printed command is read back by a shell, and by us, as the words that it was made of."""

from __future__ import annotations

import os
import subprocess

import pytest

from safekept.core.spelling import shell_line, shell_words, shown

NAMES = [
    "plain",
    "it's",
    "a b",
    "a\nb",
    "\udcff",
    "\x1b[31m",
    "$(x) `y` \\",
    "it's\n\\x41'",
    "ä ö",
    "",
    "$'x'",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_comes_back_from_the_line_that_holds_it(name):
    words = ["printf", "%s\\0", name, "--home", name]
    line = shell_line(words)
    assert line.isprintable() and shell_words(line) == words
    said = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert os.fsdecode(said).split("\0")[:-1] == words[2:]
    assert shown(name).isprintable()
