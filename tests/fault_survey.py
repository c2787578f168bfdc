"""Tries faults on a command one after another, and keeps count of what was hit and what broke."""

from __future__ import annotations

import collections
import os
import re

from call_faults import Call, Fault, Faulted, faults, inject, place, trace
from fault_scenarios import Scenario
from fault_worlds import World
from warm_commands import Said, WarmCommands

DATA = r"user/\.local/share/safekept/"
#: What may fail to be written although the command says that all is well, and why that is no lie.
NOT_NEEDED = (
    (
        r"user/\.cache/safekept\b",
        "a memory of what was seen, to be quick; without it the next run looks again",
    ),
    (r"tmp\b", "scratch, swept by the next run"),
    (
        r"out/\.safekept-tmp-#-#",
        "a scratch copy of a database; where it fails the source is read in its place",
    ),
    (DATA + r"journal\.jsonl$", "the log of what was done; that it could not be written is said"),
    (DATA + r"(vaults\.json|\.safekept-tmp-#-#)$", "a memory of where vaults were, to miss one that is gone"),
)


class Survey:
    """Faults tried on one command, and what came of them."""

    def __init__(self, scenario: Scenario, base: str, run: WarmCommands, seed: int) -> None:
        self.scenario = scenario
        self.world = World(base, run)
        self.broken: list[str] = []
        self.hits: collections.Counter[str] = collections.Counter()
        self.ends: collections.Counter[str] = collections.Counter()
        self.last: Faulted | None = None
        self._traces = os.path.join(base, "traces")
        scenario.make(self.world)
        self.world.keep()
        self._words = scenario.words(self.world)
        said, self.calls = trace(self._words, self.world.environment, self.world.project, self._traces)
        assert said.code == 0, said.out + said.err
        scenario.judge(self.world, said)  # which has to be content when nothing fails
        self.faults = faults(self.calls, self.world.root, seed)

    def attempt(self, fault: Fault) -> None:
        self.world.begin()
        hit: tuple[Call, ...] = ()
        self.last = None
        try:
            met = inject(self._words, self.world.environment, self.world.project, self._traces, fault)
            self.last, hit = met, met.hit
            self._count(met.said, hit, fault)
            self.scenario.judge(self.world, met.said)
            self._judge_end(met.said, hit, fault)
        except AssertionError as error:
            sites = "; ".join(call.site(self.world.root) for call in hit)
            self.broken.append(
                f"{fault.name} #{fault.number} {fault.error}, which hit {sites or 'nothing'}: {error}"
            )

    def _count(self, said: Said, hit: tuple[Call, ...], fault: Fault) -> None:
        inside = [call for call in hit if self._inside(call)]
        self.hits[
            "nothing" if not hit else "elsewhere" if not inside else "one" if len(hit) == 1 else "several"
        ] += 1
        for call in inside:
            self.hits[f"{call.name} {fault.error}"] += 1
        self.ends[f"{said.code} {said.error}".strip()] += 1

    def _inside(self, call: Call) -> bool:
        return any(path.startswith(self.world.root) for path in call.paths)

    def _judge_end(self, said: Said, hit: tuple[Call, ...], fault: Fault) -> None:
        assert "Traceback" not in said.out + said.err, said.err
        assert said.error != "unexpected", said.out + said.err
        # A call that was interrupted is made again; every other failed change is told, or was not needed.
        if said.code == 0 and fault.error != "EINTR":
            told = said.out + said.err
            for call in hit:
                if call.changes and self._inside(call):
                    paths = [place(path, self.world.root) for path in call.paths]
                    needed = [
                        path for path in paths if not any(re.match(kind, path) for kind, _ in NOT_NEEDED)
                    ]
                    assert not needed, f"{needed} could not be written, and the exit code is 0: {told[-600:]}"

    def account(self) -> str:
        """One paragraph: how many, what was hit, how it ended."""
        tried = sum(self.ends.values())
        aims = {name: self.hits[name] for name in ("one", "several", "elsewhere", "nothing")}
        ends = ", ".join(f"{count} x {end}" for end, count in self.ends.most_common())
        calls = ", ".join(
            f"{name} {count}" for name, count in sorted(self._by_call().items(), key=lambda pair: -pair[1])
        )
        first = f"{self.scenario.name}: {tried} faults of {len(self.faults)}; hit {aims}; {calls}"
        return f"{first}\n    ended: {ends}"

    def _by_call(self) -> dict[str, int]:
        found: collections.Counter[str] = collections.Counter()
        for name, count in self.hits.items():
            call, _, error = name.partition(" ")
            if error:
                found[call] += count
        return dict(found)
