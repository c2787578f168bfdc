#!/usr/bin/env python3
"""An `ssh` that is an SFTP server of bad will: it speaks the protocol and never comes to an end.

    HOSTILE_SFTP=endless-directory ssh … sftp

Put first on PATH under the name `ssh`. Standard library only.
"""

import os
import struct
import sys
import time

KIND = os.environ.get("HOSTILE_SFTP", "")
INIT, VERSION, OPEN, CLOSE, READ, LSTAT, FSTAT, OPENDIR, READDIR, STAT, REALPATH = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    11,
    12,
    17,
    16,
)
STATUS, HANDLE, DATA, NAME, ATTRS = 101, 102, 103, 104, 105
FILE, DIRECTORY = 0o100600, 0o040700


def exactly(count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sys.stdin.buffer.read(count - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def text(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def attributes(mode: int, size: int) -> bytes:
    return struct.pack(">IQI", 1 | 4, size, mode)


def send(kind: int, body: bytes) -> None:
    sys.stdout.buffer.write(struct.pack(">IB", len(body) + 1, kind) + body)
    sys.stdout.buffer.flush()


def names(number: int, mode: int) -> bytes:
    found = [b"%016x" % (number * 100 + place) for place in range(100)]
    body = struct.pack(">I", len(found))
    for name in found:
        body += text(name) + text(b"-rw") + attributes(mode, 1)
    return body


def main() -> None:
    if "-G" in sys.argv:
        print("ciphers none")
        return
    size = {"endless-file": 1 << 62, "grows": 1 << 20, "drip": 1 << 24}.get(KIND, 4096)
    asked = directories = 0
    listed: set[bytes] = set()
    while True:
        (length,) = struct.unpack(">I", exactly(4))
        packet = exactly(length)
        kind, identity, body = packet[0], packet[1:5], packet[5:]
        asked += 1
        if kind == INIT:
            send(
                VERSION, struct.pack(">I", 3) + (text(b"a" * 200_000) * 4 if KIND == "long-greeting" else b"")
            )
        elif kind in (STAT, LSTAT):
            path = body[4:]
            directory = KIND != "endless-file" or not path.endswith(b"config")
            send(ATTRS, identity + attributes(DIRECTORY if directory else FILE, size))
        elif kind == FSTAT:
            send(ATTRS, identity + attributes(FILE, size * asked if KIND == "grows" else size))
        elif kind in (OPEN, OPENDIR):
            directories += kind == OPENDIR
            send(HANDLE, identity + text(b"h%d" % asked))
        elif kind == READDIR:
            if KIND == "one-below-another" and body not in listed:
                listed.add(body)
                send(
                    NAME,
                    identity + struct.pack(">I", 1) + text(b"aa") + text(b"d") + attributes(DIRECTORY, 1),
                )
            elif KIND == "deep-directories":
                send(NAME, identity + names(0, DIRECTORY))
            elif KIND == "endless-directory":
                send(NAME, identity + names(asked, FILE))
            elif KIND == "empty-names":
                send(NAME, identity + struct.pack(">I", 0))
            elif KIND == "same-name":
                send(NAME, identity + names(0, FILE))
            elif KIND == "noise":
                send(NAME, identity + os.urandom(5000))
            else:
                send(STATUS, identity + struct.pack(">I", 1) + text(b"") + text(b""))
        elif kind == READ:
            _, wanted = struct.unpack(">QI", body[-12:])
            if KIND == "trickle":  # an answer that is always about to be whole
                sys.stdout.buffer.write(struct.pack(">IB", 1 << 15, DATA) + identity)
                while True:
                    sys.stdout.buffer.write(b"x")
                    sys.stdout.buffer.flush()
                    time.sleep(0.02)
            if KIND == "drip":
                wanted = 1
            if KIND == "generous":
                wanted += 1000
            send(DATA, identity + text(b"x" * wanted))
        else:
            send(STATUS, identity + struct.pack(">I", 0) + text(b"") + text(b""))


if __name__ == "__main__":
    chatters = KIND in ("chatter", "flood") and "-G" not in sys.argv
    if chatters and KIND == "chatter":
        while True:
            os.write(2, b"warning\n" * 1000)
    if chatters:
        while True:
            os.write(1, b"\0" * 65536)
    main()
