"""A process that takes a snapshot of a few files into a vault, slowly: it waits where a test wants it to.

    neighbour_worker.py VAULT SEED

Says `locked` when it has its lock and has stored half of its files, goes on when a line comes, and says
`stored ID`, or `refused CODE` and what the error says.
"""

from __future__ import annotations

import sys
import time

from safekept.core.errors import SafekeptError
from safekept.vault.format.snapshot import Snapshot
from safekept.vault.repo.repository import Repository
from safekept.vault.storage import LocalStorage
from support.vault.vaults import SECRET, save_directory, some_files


def main(place: str, seed: int) -> None:
    files = some_files(seed)
    with Repository.open(LocalStorage(place), SECRET) as vault, vault.lock(wait=5) as lock:
        try:
            with vault.saver(lock) as saver:
                save_directory(saver, dict(sorted(files.items())[: len(files) // 2]))
                saver.flush()
                print("locked", flush=True)
                sys.stdin.readline()
                tree = save_directory(saver, files)
                made = saver.finish(Snapshot(time.time_ns(), tree, ("/home/u/.hermes",), "host", "u"))
            print("stored", made.id, flush=True)
        except SafekeptError as error:
            print("refused", error.code, error.what, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
