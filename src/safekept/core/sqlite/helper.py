"""The helper process: captures one database and sends it through its standard output.

Started by `isolated`; reads one request line, then answers in frames. Its standard input stays
open for as long as its parent lives and wants it, so the end of that is its own end.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading

from ..entries import EntryLost, Outcome, Remark
from ..events import Event
from ..files import write_all
from .capture import CaptureOptions, capture_here
from .isolated import FRAME
from .lean.request import lean_request_from


def main() -> None:
    """Serve one request and end."""
    output = os.dup(1)
    # Anything printed by accident must not fall between the frames.
    os.dup2(2, 1)
    writing = threading.Lock()

    def send(letter: bytes, payload: bytes) -> None:
        with writing:
            try:
                write_all(output, FRAME.pack(letter, len(payload)))
                write_all(output, payload)
            except BrokenPipeError:
                os._exit(0)

    def say(letter: bytes, value: object) -> None:
        send(letter, json.dumps(value).encode())

    request = json.loads(sys.stdin.buffer.readline() or b"{}")
    if not request:
        return
    threading.Thread(target=_end_with_parent, daemon=True).start()
    name = request["name"]
    options = CaptureOptions(
        scratch=request["scratch"],
        deadline=request["deadline"],
        check=request["check"],
        method=request["method"],
        isolated=False,
        lean=lean_request_from(request.get("lean")),
    )

    def listen(event: Event) -> None:
        say(b"E", dataclasses.asdict(event))

    try:
        with capture_here(request["path"], name, options, request["queries"], listen) as content:
            say(b"H", {"size": content.size, "mtime_ns": content.mtime_ns})
            for chunk in content.chunks():
                send(b"D", chunk)
            assert content.database is not None
            remarks = [remark.as_dict() for remark in content.remarks]
            say(b"T", {"database": dataclasses.asdict(content.database), "remarks": remarks})
    except EntryLost as lost:
        say(b"L", lost.remark.as_dict())
    except Exception as error:  # the parent must learn why, whatever it was
        reason = f"the capture failed: {type(error).__name__}: {error}"
        say(b"L", Remark(name, Outcome.UNREADABLE, reason).as_dict())


def _end_with_parent() -> None:
    """End when the parent lets go. Without ceremony: its copies are nameless, its locks die with it."""
    while os.read(0, 4096):
        pass
    os._exit(0)
