"""What does the keeper add to a warm snapshot and to a turn, and how much room does it take?

See README.md for the method. Two users with the same home and project take turns, one of them on a machine
with a keeper; `--json` prints every measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import time

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks"), os.path.join(CHECKOUT, "tests")]

from report.ending import finish  # noqa: E402
from report.measure import Run, measured  # noqa: E402
from report.promises import held  # noqa: E402
from report.results import SAFEKEPT  # noqa: E402
from report.scratch import Scratch  # noqa: E402
from safekept.actions.keeper.stores import Stores  # noqa: E402
from safekept.actions.keeper.transfer import transfer  # noqa: E402
from safekept.core.locks import AlreadyRunning  # noqa: E402
from safekept.keeper.client import Keeper  # noqa: E402
from support.home.homes import make_hermes_home  # noqa: E402
from support.keeper.keepers import RunningKeeper, running_keeper  # noqa: E402

ROUNDS = 15
KINDS = ("snapshot", "turn")
#: As `run_detached` starts it.
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from safekept.actions.keeper.transfer import main; main()"
)


class User:
    """A home, a project of 400 files, and perhaps a keeper."""

    def __init__(self, place: str, keeper: RunningKeeper | None) -> None:
        self.place = os.path.join(place, "with" if keeper else "without")
        self.home, self.project = os.path.join(self.place, ".hermes"), os.path.join(self.place, "project")
        make_hermes_home(self.home, profiles=(), awkward=False)
        for number in range(400):
            write(os.path.join(self.project, str(number % 20), f"{number}.txt"), f"{number}\n" * 50)
        write(os.path.join(self.project, "package.json"), "{}\n")
        data = os.path.join(self.place, ".local", "share", "safekept")
        config = os.path.join(self.place, ".config", "safekept")
        self.kept_in = [os.path.join(data, "vault"), os.path.join(data, "checkpoints", "store")]
        self._stores = Stores(
            keeper.socket if keeper else "",
            data,
            os.path.join(self.place, ".cache", "safekept"),
            self.kept_in[0],
            self.kept_in[1],
            os.path.join(config, "vault.key"),
            os.path.join(config, "config.toml"),
        )
        self._keeper, self._turns = keeper, 0
        self.runs: dict[str, list[Run]] = {kind: [] for kind in KINDS}
        self.behind: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.sent: dict[str, list[int]] = {kind: [] for kind in KINDS}

    def snapshot(self) -> Run:
        """One, after one small file changed."""
        write(os.path.join(self.home, "memories", "MEMORY.md"), f"at {time.time_ns()}\n")
        return self._run(SAFEKEPT, "snapshot")

    def turn(self) -> Run:
        """What a connected agent says around one changed file: before the tool, and when the turn ends."""
        self._turns += 1
        path = os.path.join(self.project, "0", "0.txt")
        call = {"host": "claude-code", "session": "s", "turn": str(self._turns), "tool": "Write"}
        call |= {"paths": [path], "directory": self.project}  # type: ignore[dict-item]
        words = []
        for kind in ("before", "end"):
            said = os.path.join(self.place, kind)
            write(said, json.dumps({"kind": kind, **call}))
            words.append(f"{shlex.quote(SAFEKEPT)} helper call < {shlex.quote(said)}")
        change = f"date +%N > {shlex.quote(path)}"
        return self._run("sh", "-ec", "\n".join([words[0], change, words[1]]))

    def behind_it(self, kind: str) -> None:
        """What the transfer costs that nobody waits for: on both sides, and in bytes."""
        assert self._keeper is not None
        keeper, self._keeper = self._keeper, None  # it does not go by itself this once
        getattr(self, kind)()
        self._keeper = keeper
        there, used = keeper.processor_seconds(), self._used()
        words = [sys.executable, "-I", "-c", START, os.path.join(CHECKOUT, "src"), self._stores.as_text()]
        here = measured(words, {"PATH": os.environ["PATH"], "HOME": self.place}).processor_seconds
        self.sent[kind].append(self._used() - used)
        self.behind[kind].append(here + keeper.processor_seconds() - there)

    def _used(self) -> int:
        with Keeper(self._stores.socket) as caller:
            return int(caller.hello()["used"])

    def settle(self) -> None:
        """Until what was begun behind the last command has ended."""
        while self._keeper is not None:
            try:
                transfer(self._stores)
                return
            except AlreadyRunning:
                time.sleep(0.05)

    def _run(self, *words: str) -> Run:
        settings = {"PATH": os.environ["PATH"], "HOME": self.place, "SAFEKEPT_HELPER": "0"}
        settings["SAFEKEPT_KEEPER_SOCKET"] = self._keeper.socket if self._keeper else ""
        return measured(words, settings, (0, 3))


def write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def on_disk(*places: str) -> int:
    return sum(
        os.lstat(os.path.join(parent, name)).st_blocks * 512
        for place in places
        for parent, _, names in os.walk(place)
        for name in names
    )


def race(users: list[User], rounds: int) -> None:
    for number in range(-2, rounds):  # the first two are not counted: they make the stores and their caches
        for user in users if number % 2 else reversed(users):
            for kind in KINDS:
                run = getattr(user, kind)()
                user.settle()
                if number >= 0:
                    user.runs[kind].append(run)
    for _ in range(max(3, rounds // 3)):
        for kind in KINDS:
            users[0].behind_it(kind)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench keeper", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is run")
    parser.add_argument("--directory", default=None, help="where the stores are made")
    options = parser.parse_args()
    with Scratch(dir=options.directory, prefix="keeper-") as place, running_keeper() as keeper:
        keeper.start()
        users = [User(place, keeper), User(place, None)]
        race(users, max(2, options.rounds))
        there, here = on_disk(keeper.store), on_disk(*users[0].kept_in)
    medians = {
        kind: [statistics.median(run.processor_seconds for run in user.runs[kind]) for user in users]
        for kind in KINDS
    }
    judged = [
        held("keeper", f"a warm {kind} with it, relative to one without", medians[kind][0] / medians[kind][1])
        for kind in KINDS
    ]
    judged.append(held("keeper", "its bytes on disk, relative to vault and checkpoints", there / here))
    lines = []
    for kind in KINDS:
        with_it, without = (1000 * one for one in medians[kind])
        waited = [1000 * statistics.median(run.seconds for run in user.runs[kind]) for user in users]
        lines.append(f"  {kind:<10} {with_it:8.1f} ms of the processor with it, {without:8.1f} ms without")
        lines.append(f"  {'':<10} {waited[0]:8.1f} ms until it ended with it, {waited[1]:8.1f} ms without")
        behind, sent = statistics.median(users[0].behind[kind]), statistics.median(users[0].sent[kind])
        lines.append(
            f"  {'':<10} {1000 * behind:8.1f} ms of the processor behind it, {sent:,.0f} bytes more there"
        )
    lines.append(f"  on disk    {there:,} bytes for {here:,} of vault and checkpoints")
    document: dict[str, object] = {
        name: {kind: [run.as_dict() for run in runs] for kind, runs in user.runs.items()}
        for name, user in zip(("with", "without"), users, strict=True)
    }
    document |= {"behind": users[0].behind, "sent": users[0].sent, "on_disk": {"keeper": there, "here": here}}
    limit = "What is now the limit: starting a Python for each transfer, which nobody waits for."
    return finish(judged, document, lines, limit=limit, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
