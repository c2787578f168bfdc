"""Writes one large object and, half way, says so and waits to be killed. Run by test_objects_kill.py."""

from __future__ import annotations

import io
import json
import sys
import time

from safekept.core.objects import Options, open_objects

PIECE = 1 << 16


class Endless(io.RawIOBase):
    """A file that gives so many bytes and then nothing any more, while more are to come."""

    def __init__(self, most: int) -> None:
        self.given, self.most = 0, most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self.given >= self.most:
            print("half", flush=True)
            time.sleep(3600)
        self.given += PIECE
        return b"x" * PIECE


def main() -> None:
    job = json.loads(sys.argv[1])
    objects = open_objects(job["url"], environment=job["environment"], options=Options(**job["options"]))
    objects.write("whole", b"whole")
    if job["path"]:  # rclone reads files by itself, at the pace that it was given
        print("half", flush=True)
        with open(job["path"], "rb") as file:
            objects.write("data/ab/half", file)
    else:
        objects.write("data/ab/half", Endless(job["bytes"]))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
