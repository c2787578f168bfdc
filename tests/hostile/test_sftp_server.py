"""An SFTP server that never comes to an end: the announced size and a budget bound what it can cost us."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import sys
import time

import pytest

from safekept.core.errors import SafekeptError
from safekept.core.objects import Options, open_objects
from safekept.core.objects.base import NotThere
from safekept.core.objects.sftp import channel
from safekept.core.objects.sftp import transfer as listing
from support.commands.waiting import PATIENT
from support.places import CHECKOUT

KINDS = [
    "endless-directory",
    "deep-directories",
    "same-name",
    "empty-names",
    "noise",
    "long-greeting",
    "endless-file",
    "grows",
    "drip",
    "generous",
    "flood",
    "chatter",
]


@pytest.fixture(autouse=True)
def small_budget(monkeypatch):
    """The real budget is tried once, below, in a process of its own: it takes some seconds."""
    monkeypatch.setattr(listing, "MOST_NAMES", 20_000)


@pytest.fixture
def path(tmp_path):
    """A PATH on which `ssh` is the hostile server."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    script = os.path.join(CHECKOUT, "tests", "support", "offsite", "hostile_sftp.py")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {script} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{program.parent}:{os.environ['PATH']}"


def place(path, kind, seconds=2.0):
    environment = {"PATH": path, "HOSTILE_SFTP": kind, "HOME": "/nonexistent"}
    options = Options(timeout=seconds, patience=0.0)
    return open_objects("sftp://server.example/there", environment=environment, options=options)


def call(work, seconds=PATIENT):
    """What it raised, or None; it must end in time."""
    began = time.monotonic()
    try:
        work()
        return None
    except (SafekeptError, NotThere) as error:
        return error
    finally:
        assert time.monotonic() - began < seconds


#: What the server announces for the file that is read; `grows` says more with every question.
ANNOUNCED = {"grows": 10 << 20, "drip": 1 << 24}
#: Beside what is asked for: what is under way when it is given up (8 MiB), heads of answers, and a greeting.
MORE = 10 << 20
#: A name with its facts, as a server may spell it out.
A_NAME = 300


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_without_end_is_given_up_in_time(kind, path, monkeypatch):
    """Every operation ends, as an error of ours or with what was announced, and takes no more than that."""
    taken, given, filed = [0], [], channel.Channel._file

    def counting(self, number, body):
        taken[0] += len(body)
        filed(self, number, body)

    monkeypatch.setattr(channel.Channel, "_file", counting)
    with contextlib.closing(place(path, kind)) as objects:
        for most, work in (
            (listing.MOST_NAMES * A_NAME, lambda: list(objects.list(""))),
            (ANNOUNCED.get(kind, 4096), lambda: objects.read("config")),
            (100, lambda: objects.read("config", 0, 100)),
            (0, lambda: given.extend(map(len, itertools.islice(objects.stream("config"), 5)))),
            (0, lambda: objects.size("config")),
            (0, lambda: objects.present()),
            (0, lambda: objects.room()),
        ):
            given, taken[0] = [], 0
            call(work)
            assert taken[0] <= most + sum(given) + MORE, (most, given, taken)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("endless-directory", "more than a place of ours can hold"),
        ("same-name", "more than a place of ours can hold"),
        ("empty-names", "more than a place of ours can hold"),
        ("deep-directories", "can hold|go deeper than those of a place of ours"),
        ("one-below-another", "go deeper than those of a place of ours"),
        ("chatter", "cannot be reached"),
    ],
)
def test_a_listing_that_never_ends_is_an_error_with_words(kind, words, path):
    # Only who says nothing that counts is given up for it; the others have time to start on a busy machine.
    with contextlib.closing(place(path, kind, seconds=2.0 if kind == "chatter" else 60.0)) as objects:
        error = call(lambda: list(objects.list("")))
    assert isinstance(error, SafekeptError), error
    assert re.search(words, error.what), error.what


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("endless-file", "are more than any of ours has"),
        ("drip", "in crumbs"),
        ("generous", "another length than was asked for"),
        ("trickle", "too slowly to be of use"),
    ],
)
def test_a_file_that_never_ends_is_an_error_with_words(kind, words, path, monkeypatch):
    if kind == "trickle":
        monkeypatch.setattr(channel, "_PATIENCE", 0.025)  # a second and a half for one answer
    with contextlib.closing(place(path, kind, seconds=60.0)) as objects:
        error = call(lambda: objects.read("config"))
    assert isinstance(error, SafekeptError), error
    assert words in error.what


def test_a_listing_without_end_stays_small(path, run):
    env = {"PATH": path, "HOSTILE_SFTP": "endless-directory"}
    done = run(
        "pull", "sftp://server.example/there", "--archive", "latest", "--dry-run", env=env, seconds=120
    )
    assert done.code == 1, done
