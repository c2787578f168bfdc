"""Tries faults on a command one after another, and keeps count of what was hit and what broke."""

from __future__ import annotations

import collections
import os
import re
from dataclasses import dataclass

from support.commands.warm_commands import Said, WarmCommands
from support.faults.call_faults import Call, Fault, Faulted, faults, inject, place, trace
from support.faults.scenarios import Scenario
from support.faults.worlds import World
from support.keeper.keepers import RunningKeeper

DATA = r"user/\.local/share/safekept/"
_NAMING = "link linkat mkdir mkdirat unlink unlinkat copy_file_range fchown fchownat fchmod"


@dataclass(frozen=True)
class Spare:
    """What may fail to be written although the command ends 0, and why that is no lie."""

    path: str
    why: str
    calls: str = ""  # only these; empty: any
    told: bool = False  # only where the command says that it failed
    commands: str = ""  # only those that begin like this

    def covers(self, command: str, call: str, path: str, told: bool) -> bool:
        return (
            re.match(self.path, path) is not None
            and (not self.calls or call in self.calls.split())
            and (told or not self.told)
            and command.startswith(self.commands)
        )


NOT_NEEDED = (
    Spare(r"user/\.cache/safekept\b", "a memory of what was seen; without it the next run looks again"),
    Spare(r"tmp\b", "scratch, swept by a later run"),
    Spare(
        DATA + r"journal\.jsonl$", "the log of what was done, not a condition for it; it is said", told=True
    ),
    Spare(DATA + r"(vaults\.json|\.safekept-tmp[-#]*)$", "where vaults were seen, to miss one that is gone"),
    Spare(DATA + r"state\.json$", "which version the state has; no number means the first, the only one"),
    Spare(
        DATA + r"(vault|checkpoints/hidden)/safekept-reserve\b",
        "room held back for a full disk; the next run makes it",
    ),
    Spare(DATA + r"reports\b", "the account of an archive, which is in the archive too"),
    Spare(
        r".*[./-]lock$",
        "who holds a lock, for the words of others; the lock is the kernel's",
        "openat pwrite64 ftruncate write unlink",
    ),
    Spare(
        DATA + r"vault/locks\b", "a reader's lock; without one it reads all the same, and says so", told=True
    ),
    Spare(DATA + r"(vault|checkpoints/hidden)/locks/", "an old lock that stays is known as one", "unlink"),
    Spare(
        DATA + r"checkpoints/projects/#/hidden-(trouble|left)\.json$",
        "why an earlier point was not whole; shown until the next one, and never less than is so",
        "unlink",
    ),
    Spare(
        DATA + r"checkpoints/repositories\b",
        "the project's own git history; that it is not whole yet is said, and the next point tries again",
        told=True,
    ),
    Spare(
        DATA + r"vault\b",
        "the second net of a restore; the first lies beside the home",
        told=True,
        commands="restore",
    ),
    Spare(
        r"(user/\.hermes\.safekept|user/\.hermes)\b", "done another way, which the comparison shows", _NAMING
    ),
    Spare(
        r"out/\.safekept-tmp[-#]*",
        "a copy of a database to read from; without it the original is read",
        _NAMING,
    ),
    Spare(
        DATA + r"scratch/[-#]+/\.safekept-tmp[-#]*$",
        "a copy of a database to read from; where the kernel cannot make it, it is read and written; where"
        " there can be none, the database is read where it lies (test_capture_states keeps that so)",
        "copy_file_range openat",
    ),
    Spare(
        DATA + r"scratch/[-#]+(/\.safekept-tmp[-#]*(-wal|-shm|-journal)?)?$",
        "what stays in the scratch is swept by a later run",
        "unlink rmdir",
    ),
    Spare(r".*", "a filesystem without hard links: it is renamed in place of that", "link"),
    Spare(r".*(\.safekept-tmp|-tmp)[-#]+$", "a temporary name that stays is swept by a later run", "unlink"),
    Spare(r".*", "a hint to the disk to begin writing; the sync comes later", "sync_file_range"),
    Spare(DATA + r"checkpoints/(size|maintenance-started)$", "when to tidy up; looked at anew next time"),
    Spare(
        DATA + r"checkpoints/projects/#/(cache|ledger|packs|place\.json)$",
        "a memory of what was seen and stored",
    ),
    Spare(
        DATA + r"(vault|checkpoints/(hidden|store|repositories(/#)?))"
        r"(/(data|objects|refs(/safekept)?)/[^/.]+|/\w+)?$",
        "a directory that could not be closed is closed by the next command, which `closed_again` looks at",
        "fchmod",
    ),
    Spare(
        DATA + r"(vault/safekept|checkpoints/hidden/safekept|checkpoints/store/info)"
        r"(/\.safekept-tmp[-#]*|/(safekept-)?belt)?$",
        "that a store has a seat belt; the next command writes it, which `closed_again` looks at",
    ),
    Spare(
        DATA + r"checkpoints/repositories(/\.safekept-tmp[-#]*|/belt)?$",
        "the same of the projects' repositories; that they could not be made is said",
        "openat write fchmod fsync rename",
    ),
    Spare(
        DATA + r"kept\b",
        "copies of small files behind the seat belt: the originals are there, and the next command goes on",
    ),
    Spare(
        DATA + r"checkpoints/projects/#/hidden$", "names and times of what was seen; the next look is longer"
    ),
    Spare(
        DATA + r"checkpoints/projects/#/hidden-look-",
        "an old list that stays goes with a later one",
        "unlink",
    ),
    Spare(
        DATA + r"checkpoints/projects/#(/\.safekept-tmp[-#]*|/rollback\.jsonl)?$",
        "a memory of what was seen, or the list of rollbacks made shorter; for a pack it is an error",
    ),
    Spare(
        DATA + r"checkpoints/(hidden/(locks|data|index|snapshots)\b|projects/#/hidden\.jsonl$)",
        "the hidden half as a rollback left it, which the next point keeps, or the lock to show a plan;"
        " without what an undo needs it ends 3, and that the undo brings everything is looked at",
        commands="rollback",
    ),
    Spare(
        r"project/data/app\.db$",
        "the database that a copy is made of to read from; where the kernel cannot, it is read and written",
        "copy_file_range",
    ),
    Spare(
        DATA + r"checkpoints/",
        "the mark after a rollback, or its last line; both are said",
        told=True,
        commands="rollback",
    ),
)


class Survey:
    """Faults tried on one command, and what came of them."""

    def __init__(
        self, scenario: Scenario, base: str, run: WarmCommands, seed: int, keeper: RunningKeeper | None = None
    ) -> None:
        self.scenario = scenario
        self.world = World(base, run, keeper)
        self.broken: list[str] = []
        self.hits: collections.Counter[str] = collections.Counter()
        self.ends: collections.Counter[str] = collections.Counter()
        self.last: Faulted | None = None
        self._traces = os.path.join(base, "traces")
        scenario.make(self.world)
        self.world.keep()
        self.world.begin()  # as fresh as each of the others will be: what was just written is read twice
        self._words = scenario.words(self.world)
        said, self.calls = trace(self._words, self.world.with_keeper, self.world.project, self._traces)
        assert said.code == 0, said.out + said.err
        scenario.judge(self.world, said)  # which has to be content when nothing fails
        self.faults = faults(self.calls, self.world.root, seed)

    def attempt(self, fault: Fault) -> None:
        self.world.begin()
        hit: tuple[Call, ...] = ()
        self.last = None
        try:
            met = inject(self._words, self.world.with_keeper, self.world.project, self._traces, fault)
            self.last, hit = met, met.hit
            self._count(met.said, hit, fault)
            self.scenario.judge(self.world, met.said)
            self._judge_end(met.said, hit, fault)
        except AssertionError as error:
            sites = "; ".join(call.site(self.world.root) for call in hit)
            self.broken.append(
                f"{fault.name} #{fault.number} {fault.error}, which hit {sites or 'nothing'}: {error}"
            )
            print(f"{self.scenario.name}: {self.broken[-1]}", flush=True)  # with -s: hours before the end

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
        if not all(self._inside(call) for call in hit):
            return  # a file of the interpreter's own, or a pipe: it says what it says
        assert "Traceback" not in said.out + said.err, said.err
        assert said.error != "unexpected", said.out + said.err
        # A call that was interrupted is made again; every other failed change is told, or was not needed.
        if said.code == 0 and fault.error != "EINTR":
            for call in hit:
                if call.changes and self._inside(call) and not call.made_again:
                    paths = [place(path, self.world.root) for path in call.paths]
                    assert all(self._spare(call.name, path, said) for path in paths), (
                        f"{paths} could not be written, and the exit code is 0: {said.out[-600:]}{said.err}"
                    )

    def _spare(self, call: str, path: str, said: Said) -> bool:
        told = "Note: " in said.err or bool(re.search(r'"remarks": \[\s*[^\]\s]', said.out))
        return any(spare.covers(self.scenario.name, call, path, told) for spare in NOT_NEEDED)

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
