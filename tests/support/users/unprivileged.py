"""Doing something as a user without rights: tests often run as root, who may read everything."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

NOBODY = 65534
Answer = TypeVar("Answer")


def as_nobody(action: Callable[[], Answer], user: int = NOBODY) -> Answer:
    """Run an action in a child that gave its rights away, and return what it returned."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(action(), pipe)
            status = 0
        except BaseException as error:
            os.write(2, f"in the child: {error!r}\n".encode())
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, "the action failed in the child"
    answer: Answer = pickle.loads(data)
    return answer


@pytest.fixture
def nobodys() -> Iterator[str]:
    """A directory that belongs to the user without rights and that he can reach."""
    place = tempfile.mkdtemp(prefix="safekept-nobody-")
    os.chmod(place, 0o755)
    if os.getuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    yield os.path.realpath(place)
    for parent, directories, _ in os.walk(place):
        for name in directories:
            os.chmod(os.path.join(parent, name), 0o755)
    shutil.rmtree(place)


def ssh_to_itself(directory: str) -> str:
    """A directory for PATH whose `ssh` leads to the real SFTP server, run by whoever calls it: what that
    user may not read is closed to the server, too."""
    server = shutil.which(
        "sftp-server", path="/usr/lib/openssh:/usr/libexec/openssh:/usr/lib/ssh:/usr/libexec"
    )
    if server is None:
        from conftest import missing_part

        missing_part("the program `sftp-server` of OpenSSH is not installed")
    place = os.path.join(directory, "bin")
    os.mkdir(place, 0o755)
    program = os.path.join(place, "ssh")
    with open(program, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\nexec {server}\n")
    os.chmod(program, 0o755)
    return place
