"""Records what a checkout writes, for a test of a later one: `tests/compat/test_written_before.py`.

    .venv/bin/python workshop/record_today.py CHECKOUT tests/data/NAME

CHECKOUT is the one whose safekept is run. Everything is made by its own commands in a throwaway place: a
vault, archives, checkpoints, a journal with every verb there is, receipts, and the small files of every kind.
What they say of it all is written down beside it, and a later checkout has to say the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import zstandard

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(HERE, "tests"))
sys.path.append(os.path.join(HERE, "workshop"))
from record_homes import archives, furnish, landings, snapshots, vault_care  # noqa: E402
from record_projects import projects  # noqa: E402
from record_proofs import cut_short, proofs  # noqa: E402
from recorder import Recorder  # noqa: E402

from support.users import recording  # noqa: E402
from support.users.fixed_place import FixedPlace, ways_in  # noqa: E402

#: Every verb that a journal can hold; a recording without one of them is not whole.
VERBS = frozenset(
    "adopt alarm alarm-acknowledged alarm-over backup bring-back checkpoint checkpoints-adopt "
    "checkpoints-clear checkpoints-clear-legacy checkpoints-prune connect disconnect doctor drill forget "
    "guard import "
    "kit-acknowledge notify pin pre-migration pre-update prune pull push rebuild restore restore-session "
    "rollback rollback-undo run schedule-install schedule-remove schedule snapshot undo undo-session "
    "unforget unpin vault-check vault-init vault-join vault-key-add vault-key-remove vault-kit vault-prune "
    "vault-repair vault-unlock".split()
)
STEPS = (furnish, snapshots, vault_care, archives, landings, projects, proofs, cut_short)


def written_down(recorder: Recorder, scratch: str) -> dict[str, Any]:
    """What the checkout that wrote it all says of it; copies are asked, so that nothing is added to it."""
    place = recorder.place

    def copy(name: str) -> FixedPlace:
        return place.copy(os.path.join(scratch, name))

    read = recording.readings(copy("read"))
    points = {**read["points"]["checkpoints"], **read["points"]["home_points"]}
    known = recording.operations(copy("operations"), read["log"])
    told = {
        "read": read,
        "operations": known,
        "lines": {user: recording.journal_lines(place, user) for user in recording.USERS},
        "receipts": recording.receipts(place),
        "snapshots": recording.restored_snapshots(copy("restored"), read["snapshots"]["snapshots"]),
        "archives": recording.imported_archives(copy("imported")),
        "rolled back": recording.rolled_back(copy("rolled"), points),
        "undone": recording.undone(copy("undone"), known, os.path.join(scratch, "undoing")),
    }
    verbs = {line["verb"] for lines in told["lines"].values() for line in lines}
    if verbs != VERBS:
        raise SystemExit(f"missing: {sorted(VERBS - verbs)}; unknown: {sorted(verbs - VERBS)}")
    for name, value in told.items():
        sys.stderr.write(f"{name}: {len(value)}\n")
    return told


def commit_of(checkout: str) -> str:
    told = subprocess.run(
        ["git", "-C", checkout, "log", "-1", "--format=%H %s"], capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def main() -> int:
    checkout, into = (os.path.abspath(word) for word in sys.argv[1:3])
    enter = ways_in()
    if enter is None:
        raise SystemExit("This needs a mount namespace: run it as root.")
    with tempfile.TemporaryDirectory(prefix="safekept-record-") as scratch:
        root = os.path.join(scratch, "srv")
        os.makedirs(os.path.join(root, "second"))
        place = FixedPlace(root, enter, os.path.join(checkout, ".venv", "bin", "python"))
        recorder = Recorder(place, checkout)
        for step in STEPS:
            sys.stderr.write(f"{step.__name__} ...\n")
            step(recorder)
        os.makedirs(into, exist_ok=True)
        os.makedirs(os.path.join(scratch, "undoing"))
        told = json.dumps({"commit": commit_of(checkout), **written_down(recorder, scratch)})
        recording.pack(root, os.path.join(into, "place.tar.zst"))
        with open(os.path.join(into, "told.json.zst"), "wb") as file:
            file.write(zstandard.ZstdCompressor(level=19).compress(told.encode()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
