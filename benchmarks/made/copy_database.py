"""Copies a live database by SQLite's own backup, in one step: what restic is given instead of a torn file."""

import contextlib
import sqlite3
import sys

source, target = sys.argv[1:]
with (
    contextlib.closing(sqlite3.connect(source)) as live,
    contextlib.closing(sqlite3.connect(target)) as copy,
):
    live.backup(copy)
