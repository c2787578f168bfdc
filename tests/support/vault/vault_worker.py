"""A process that works on a vault until it is told to stop, or killed: saves, forgets, prunes.

It says each thing that it did once it is done, and each forgetting also before it starts:

    stored ID SEED · forgetting ID · forgot ID · pruned N
"""

from __future__ import annotations

import random
import sys
import time

from safekept.vault.care import repack as prune_packs
from safekept.vault.care.forgetting import forget, pin
from safekept.vault.care.prune import carry_out, plan_prune
from safekept.vault.errors import VaultLocked
from safekept.vault.format import pack
from safekept.vault.repo import index as index_file
from safekept.vault.repo import packer
from safekept.vault.repo.repository import Repository
from safekept.vault.snapshots import list_snapshots, public_id
from safekept.vault.storage import LocalStorage
from support.vault.vaults import SECRET, save_files, some_files


def say(*words: object) -> None:
    print(*words, flush=True)


def save(vault: Repository, seed: int) -> str:
    with vault.lock(wait=600) as lock:
        made = save_files(vault, some_files(seed), lock=lock, tags=("kind:quick",))
    say("stored", made.id, seed)
    return made.id


def forget_one(vault: Repository, name: str) -> None:
    with vault.lock(exclusive=True, wait=600) as lock:
        found = [one for one in list_snapshots(vault)[0] if public_id(one) == name]
        say("forgetting", name)
        forget(vault, found, lock, now_ns=time.time_ns())
    say("forgot", name)


def pin_one(vault: Repository, name: str) -> None:
    with vault.lock(exclusive=True, wait=600) as lock:
        pin(vault, [one for one in list_snapshots(vault)[0] if public_id(one) == name], lock)


def prune(vault: Repository, wait: float = 600) -> None:
    with vault.lock(exclusive=True, wait=wait) as lock:
        result = carry_out(vault, plan_prune(vault, now_ns=time.time_ns() + 10**9, grace=0), lock)
    say("pruned", result.packs_deleted)


def work(vault: Repository, seed: int, source: random.Random) -> None:
    """Everything by turns, without a pause: to be killed."""
    mine: list[str] = []
    for number in range(seed, seed + 10_000):
        mine.append(save(vault, number))
        if len(mine) > 2:
            forget_one(vault, mine.pop(source.randrange(len(mine))))
        if source.random() < 0.4:
            pin_one(vault, mine.pop(source.randrange(len(mine))))
        if source.random() < 0.7:
            prune(vault)


def write(vault: Repository, seed: int, source: random.Random, seconds: float) -> None:
    """Snapshots beside other writers and a prune loop; some are forgotten again."""
    end, number, mine = time.monotonic() + seconds, seed, []
    while time.monotonic() < end or number == seed:
        mine.append(save(vault, number))
        number += 1
        time.sleep(source.uniform(0.1, 1.0))
        if len(mine) > 2 and source.random() < 0.5:
            forget_one(vault, mine.pop(0))


def prune_loop(vault: Repository, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            prune(vault, wait=5)
        except VaultLocked:
            say("locked out")
        time.sleep(0.1)


def main() -> None:
    kind, path, seed, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    # Small packs and index files: much to do with little data.
    pack.TARGET, packer.MOST_BLOBS, index_file.MOST_BLOBS, prune_packs.FEW = 40_000, 8, 40, 5
    source = random.Random(seed)
    with Repository.open(LocalStorage(path), SECRET) as vault:
        say("ready")
        if kind == "work":
            work(vault, seed, source)
        elif kind == "write":
            write(vault, seed, source, seconds)
        else:
            prune_loop(vault, seconds)


if __name__ == "__main__":
    main()
