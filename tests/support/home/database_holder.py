"""A process that has a database open and does what it is told: an agent, for tests.

Run as a script it opens the database, runs its arguments as statements, and then one statement for
every JSON line it is given, answering each with the rows or the error. Ends with its input.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


class HolderFailed(Exception):
    """A statement failed in the other process."""


class Holder:
    def __init__(self, path: str | Path, *statements: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, path, *statements], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._answer()

    @property
    def pid(self) -> int:
        return self.process.pid

    def run(self, statement: str) -> list[list]:
        """Run one statement there; its rows."""
        self.process.stdin.write(json.dumps(statement).encode() + b"\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> list[list]:
        answer = json.loads(self.process.stdout.readline() or '"it ended"')
        if isinstance(answer, str):
            raise HolderFailed(answer)
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.process.communicate(timeout=300)


@contextlib.contextmanager
def held(path: str | Path, *statements: str) -> Iterator[Holder]:
    """A database that another process has open, after it ran these statements."""
    holder = Holder(path, *statements)
    try:
        yield holder
    finally:
        holder.close()


def main() -> None:
    with contextlib.closing(sqlite3.connect(os.fsencode(sys.argv[1]), isolation_level=None)) as connection:
        for statement in sys.argv[2:]:
            connection.execute(statement).fetchall()
        print("[]", flush=True)
        for line in sys.stdin:
            try:
                print(json.dumps(connection.execute(json.loads(line)).fetchall()), flush=True)
            except sqlite3.Error as error:
                print(json.dumps(str(error)), flush=True)


if __name__ == "__main__":
    main()
