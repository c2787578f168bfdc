"""What do many agents cost in an S3-compatible store: requests, bytes, index memory, prune windows?

Some agents live for two weeks. Each has a home and a vault of its own, takes a snapshot every night and
pushes it to one bucket of a real S3 server (`rclone serve s3`) on loopback. A proxy before it counts every
HTTP request by kind, with its bytes, so what is counted is what a provider would bill. Then `fleet` looks at
all of them, and one vault is pruned, here and in the bucket. `--json` prints every measurement;
docs/design/fleet-costs.md is worked out from them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from made.datasets import Language, make_home  # noqa: E402
from made.days import live_one_day  # noqa: E402
from report.results import HERMES_PYTHON, machine  # noqa: E402# noqa: E402
from safekept.actions.base.context import UserContext  # noqa: E402
from safekept.actions.offsite.destination import DestinationSetting  # noqa: E402
from safekept.actions.offsite.fleet import FleetRequest, look_at_fleet  # noqa: E402
from safekept.actions.offsite.push.push import push  # noqa: E402
from safekept.actions.offsite.push.result import PushRequest  # noqa: E402
from safekept.actions.snapshots.listing import list_home  # noqa: E402
from safekept.actions.vault.care import plan_vault_prune, prune_vault  # noqa: E402
from safekept.actions.vault.opening import open_vault  # noqa: E402
from safekept.vault.care.forgetting import forget  # noqa: E402
from safekept.vault.repo.index import RECORD  # noqa: E402
from safekept.vault.storage.base import FileKind  # noqa: E402
from support.offsite.fault_proxy import FaultProxy, Request  # noqa: E402
from support.offsite.servers import Place, S3Server  # noqa: E402
from support.users.contexts import throwaway  # noqa: E402
from support.vault.snapshots import take  # noqa: E402

DAY = 86_400 * 10**9
#: What a billed request is called: the first three cost about ten times as much as the others.
KINDS = ("PUT", "LIST", "POST", "GET", "HEAD", "DELETE")


def kind_of(request: Request) -> str:
    return "LIST" if request.is_list else request.method


class Wire:
    """What went over the wire since it was last asked."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy

    def take(self) -> dict[str, int]:
        requests = list(self.proxy.requests)
        self.proxy.reset()
        found = Counter(map(kind_of, requests))
        return {
            **{kind: found[kind] for kind in KINDS if found[kind]},
            "requests": len(requests),
            "sent_bytes": sum(one.size for one in requests),
        }


def agents(directory: str, count: int, gigabytes: float, place: Place) -> list[UserContext]:
    """So many machines with homes that have nothing in common but the kind of text."""
    setting = DestinationSetting(
        "bucket",
        place.url,
        options={"endpoint": place.options.endpoint, "region": place.options.region},
    )
    made = []
    for number in range(count):
        here = throwaway(os.path.join(directory, f"agent-{number}"), environment=place.environment)
        make_home(os.path.join(here.places.user_home, ".hermes"), gigabytes, HERMES_PYTHON, seed=100 + number)
        made.append(here.changed(destinations=(setting,)))
    return made


def acknowledged(here: UserContext) -> None:
    with open_vault(here) as repository:
        document = {"version": 1, "vaults": {repository.id: {"acknowledged": 1.0}}}
    with open(os.path.join(here.places.data_directory, "kits.json"), "w") as file:
        json.dump(document, file)


def vault_facts(here: UserContext) -> dict[str, int]:
    """What lies in one vault, and what its index needs in memory."""
    with open_vault(here) as repository:
        sizes = {kind: list(repository.storage.list(kind)) for kind in FileKind if kind is not FileKind.LOCK}
        index = repository.index
        return {
            "bytes": sum(size for found in sizes.values() for _, size in found),
            "packs": len(sizes[FileKind.PACK]),
            "index_files": len(sizes[FileKind.INDEX]),
            "index_bytes": sum(size for _, size in sizes[FileKind.INDEX]),
            "snapshots": len(sizes[FileKind.SNAPSHOT]),
            "snapshot_bytes": sum(size for _, size in sizes[FileKind.SNAPSHOT]),
            "blobs": len(index),
            "index_memory": RECORD.size * len(index) + 36 * len(index.packs),
        }


def timed(work: object) -> tuple[float, object]:
    before = time.process_time()
    found = work()  # type: ignore[operator]
    return time.process_time() - before, found


def mean(rows: list[dict[str, int]]) -> dict[str, float]:
    names = sorted({name for row in rows for name in row})
    return {name: round(sum(row.get(name, 0) for row in rows) / len(rows), 1) for name in names}


def run(directory: str, count: int, days: int, gigabytes: float, s3: S3Server) -> dict[str, object]:
    with FaultProxy(s3.port) as proxy:
        place = s3.place(proxy.endpoint)
        counter = Wire(proxy)
        machines = agents(directory, count, gigabytes, place)
        home = sum(
            os.lstat(os.path.join(at, name)).st_size
            for at, _, names in os.walk(os.path.join(machines[0].places.user_home, ".hermes"))
            for name in names
        )
        now = time.time_ns()
        first: list[dict[str, int]] = []
        nights: list[dict[str, int]] = []
        idle: list[dict[str, int]] = []
        for day in range(days):
            for number, here in enumerate(machines):
                if day:
                    live_one_day(
                        os.path.join(here.places.user_home, ".hermes"), day, Language(1000 * number + day)
                    )
                moment = now - (days - 1 - day) * DAY
                take(here, os.path.join(here.places.user_home, ".hermes"), kind="scheduled", now_ns=moment)
                if not day:
                    acknowledged(here)
                counter.take()
                push(here, PushRequest("bucket"))
                (nights if day else first).append(counter.take())
        for here in machines:
            push(here, PushRequest("bucket"))
            idle.append(counter.take())
        admin = throwaway(os.path.join(directory, "admin"), environment=place.environment)
        admin = admin.changed(destinations=machines[0].choices.destinations)
        keys = tuple(here.places.vault_key_file for here in machines)
        looks = {}
        for name, request in (
            ("fleet", FleetRequest("bucket", keys)),
            ("fleet, a second time", FleetRequest("bucket", keys)),
            ("fleet --fast", FleetRequest("bucket", keys, counts=False)),
            ("fleet without keys", FleetRequest("bucket")),
        ):
            look_at_fleet(admin, request)
            looks[name] = counter.take()
        facts = [vault_facts(here) for here in machines]
        prune = prune_facts(machines[0], counter)
        return {
            "machine": machine(),
            "agents": count,
            "days": days,
            "home_bytes": home,
            "first_push": mean(first),
            "night": mean(nights),
            "night_with_nothing_new": mean(idle),
            "looks": looks,
            "vault": mean(facts),
            "prune": prune,
        }


def prune_facts(here: UserContext, counter: Wire) -> dict[str, object]:
    """A prune after half of the snapshots were forgotten: here, and then what it takes in the bucket."""
    with open_vault(here) as repository, repository.lock(exclusive=True) as lock:
        home = os.path.join(here.places.user_home, ".hermes")
        chosen = [one.snapshot for one in list_home(repository, home).shown[1::2]]
        forget(repository, chosen, lock, now_ns=time.time_ns() - 30 * DAY)
    before = vault_facts(here)
    with open_vault(here) as repository:
        began = time.monotonic()
        processor, _ = timed(lambda: prune_vault(here, repository, plan_vault_prune(repository)))
        window = time.monotonic() - began
    after = vault_facts(here)
    counter.take()
    push(here, PushRequest("bucket", prune=True))
    return {
        "before": before,
        "after": after,
        "processor_seconds": round(processor, 2),
        "exclusive_seconds": round(window, 2),
        "push_after": counter.take(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--gigabytes", type=float, default=0.05, help="of each home")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="safekept-fleet-")
    s3 = S3Server(directory)
    try:
        found = run(directory, options.agents, options.days, options.gigabytes, s3)
    finally:
        s3.end()
        shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{options.agents} agents, {options.days} days, homes of {found['home_bytes']:,} bytes")
    for name in ("first_push", "night", "night_with_nothing_new", "vault"):
        print(f"{name:<24} {found[name]}")
    for name, facts in found["looks"].items():  # type: ignore[attr-defined]
        print(f"{name:<24} {facts}")
    print(f"{'prune':<24} {found['prune']}")


if __name__ == "__main__":
    main()
