"""The writer of the capture storms: an agent that never stops writing its database.

Run as a script: PATH MODE SEED STYLE PUBLISHED REPORT SYNCHRONOUS. Every transaction keeps two
invariants (the sum of all balances; `counter` equals the number of ledger rows), and after every
commit the id of the last committed ledger row is published in a shared file, so that a capture can
be asked for every row that was committed before it began. Ends when its standard input ends; then
writes how long each transaction took.
"""

import contextlib
import json
import os
import random
import select
import sqlite3
import struct
import sys
import time

ACCOUNTS, BALANCE = 64, 1000
GROWN = 30_000  # ledger rows after which the database grows slowly


def connect(path: str, synchronous: str = "OFF") -> sqlite3.Connection:
    # No busy handler: its sleeps of up to 100 ms would be measured as if they were stalls.
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    connection.execute("PRAGMA cache_size=40")  # spills early
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute("PRAGMA wal_autocheckpoint=100")
    return connection


def patiently(connection: sqlite3.Connection, statement: str) -> None:
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(0.0005)


def set_up(path: str, mode: str, megabytes: int) -> None:
    with contextlib.closing(connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
        connection.execute("CREATE TABLE ledger (id INTEGER PRIMARY KEY, note BLOB NOT NULL)")
        connection.execute("CREATE INDEX ledger_note ON ledger (substr(note, 1, 8))")
        connection.execute("CREATE TABLE counter (rows INTEGER NOT NULL)")
        connection.execute("CREATE TABLE filler (id INTEGER PRIMARY KEY, body BLOB)")
        connection.executemany("INSERT INTO account VALUES (?, ?)", [(n, BALANCE) for n in range(ACCOUNTS)])
        connection.execute("INSERT INTO counter VALUES (0)")
        connection.executemany(
            "INSERT INTO filler (body) VALUES (?)", ((os.urandom(8000),) for _ in range(megabytes * 125))
        )
        connection.execute("COMMIT")


class Writer:
    def __init__(self, path: str, mode: str, seed: int, style: str, published: str, synchronous: str) -> None:
        self.path, self.mode, self.style, self.synchronous = path, mode, style, synchronous
        self.random = random.Random(seed)
        self.published = os.open(published, os.O_RDWR | os.O_CREAT, 0o600)
        self.connection = connect(path, synchronous)
        self.last = self.connection.execute("SELECT coalesce(max(id), 0) FROM ledger").fetchone()[0]
        self.times: list[tuple[float, float]] = []

    def begin(self) -> None:
        patiently(self.connection, "BEGIN IMMEDIATE")

    def transfer(self, rows: int) -> None:
        for _ in range(4):
            amount = self.random.randint(1, 50)
            giver, taker = self.random.sample(range(ACCOUNTS), 2)
            self.connection.execute("UPDATE account SET balance = balance - ? WHERE id = ?", (amount, giver))
            self.connection.execute("UPDATE account SET balance = balance + ? WHERE id = ?", (amount, taker))
        body = os.urandom(16) * 12
        self.connection.executemany("INSERT INTO ledger (note) VALUES (?)", ((body,) for _ in range(rows)))
        self.connection.execute("UPDATE counter SET rows = rows + ?", (rows,))

    def commit(self, rows: int) -> None:
        start = time.monotonic()
        self.begin()
        self.transfer(rows)
        patiently(self.connection, "COMMIT")
        self.times.append((start, time.monotonic() - start))
        self.last += rows
        os.pwrite(self.published, struct.pack("=q", self.last), 0)

    def take_back(self) -> None:
        # A half transaction, spilled into the log or the main file, and undone.
        self.begin()
        with contextlib.suppress(sqlite3.OperationalError):
            self.transfer(600)
            self.connection.execute("UPDATE filler SET body = zeroblob(8000) WHERE id % 40 = 1")
        self.connection.execute("ROLLBACK")

    def shuffle(self) -> None:
        # Free pages and take them again, so that pages change their role.
        self.begin()
        with contextlib.suppress(sqlite3.OperationalError):
            self.connection.execute("DELETE FROM filler WHERE id % 50 = ?", (self.random.randrange(50),))
        patiently(self.connection, "COMMIT")

    def reopen(self) -> None:
        self.connection.close()
        if self.style == "reopening":
            time.sleep(self.random.random() * 0.02)  # long enough to be found at rest
        self.connection = connect(self.path, self.synchronous)

    def step(self) -> None:
        if self.last > GROWN:
            # Else captures get slower, so more rows come in during each, so captures get slower...
            time.sleep(0.002)
        if self.style == "reopening" and self.random.random() < 0.2:
            self.reopen()
        dice = self.random.random()
        if dice < 0.80:
            self.commit(self.random.randint(1, 3))
        elif dice < 0.84:
            self.commit(300 if self.last <= GROWN else 1)
        elif dice < 0.87:
            self.take_back()
        elif dice < 0.88:
            self.shuffle()
        elif dice < 0.97 and self.mode == "wal":
            kind = self.random.choice(["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
            with contextlib.suppress(sqlite3.OperationalError):
                self.connection.execute(f"PRAGMA wal_checkpoint({kind})").fetchone()
        elif self.style != "steady":
            self.reopen()


def main() -> None:
    path, mode, seed, style, published, report, synchronous = sys.argv[1:8]
    writer = Writer(path, mode, int(seed), style, published, synchronous)
    writer.commit(1)
    print("writing", flush=True)
    while not select.select([0], [], [], 0)[0]:
        writer.step()
    writer.connection.close()
    with open(report, "w") as file:
        json.dump(writer.times, file)


if __name__ == "__main__":
    main()
