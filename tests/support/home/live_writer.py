"""A process that commits to a chat database until its standard input closes.

Every transaction adds one whole turn (a question and an answer that carry the same number), so a
copy of one committed state holds an even number of messages and no unpaired turn. After each commit
the number of committed turns is written to the progress file, so a reader can say: these were in.
Arguments: database, progress file, JSON options.
"""

from __future__ import annotations

import json
import os
import random
import select
import sqlite3
import struct
import sys
import time

WORDS = "the vault keeps every message of this agent until a calm hand asks for it again".split()
CHECKPOINTS = ("PASSIVE", "FULL", "RESTART", "TRUNCATE")


def connect(path: str, options: dict[str, object]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=300)
    connection.execute(f"pragma journal_mode={options['journal']}")
    connection.execute(f"pragma wal_autocheckpoint={options['autocheckpoint']}")
    connection.execute("pragma synchronous=normal")
    return connection


def main() -> None:
    path, progress = sys.argv[1], sys.argv[2]
    options = json.loads(sys.argv[3])
    rng = random.Random(options["seed"])
    connection = connect(path, options)
    connection.execute("insert or ignore into sessions(id, source, started_at) values ('live', 'cli', 0)")
    descriptor = os.open(progress, os.O_RDWR | os.O_CREAT, 0o600)
    turn = connection.execute("select count(*) / 2 from messages where session_id = 'live'").fetchone()[0]
    latencies: list[float] = []
    while not select.select([sys.stdin], [], [], options["pause"])[0]:
        turn += 1
        text = " ".join(rng.choices(WORDS, k=options["words"]))
        started = time.perf_counter()
        connection.execute("begin immediate")
        for role in ("user", "assistant"):
            connection.execute(
                "insert into messages(session_id, role, content, timestamp) values ('live', ?, ?, ?)",
                (role, f"turn {turn} {text}", time.time()),
            )
        connection.execute("commit")
        latencies.append(time.perf_counter() - started)
        os.pwrite(descriptor, struct.pack("<qd", turn, time.monotonic()), 0)
        if options["checkpoints"] and rng.random() < options["checkpoints"]:
            connection.execute(f"pragma wal_checkpoint({rng.choice(CHECKPOINTS)})").fetchone()
        if options["reopens"] and rng.random() < options["reopens"]:
            connection.close()
            connection = connect(path, options)
    connection.close()
    print(json.dumps({"turns": turn, "latencies": latencies}))


main()
