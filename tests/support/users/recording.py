"""What is asked of a recorded place: by the recorder when it was made, and by the test ever after.

Both ask with the same words, through the command line only. What they are told must be the same, but for what
depends on the day, on the machine, or on how a sentence is worded.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from typing import Any

import zstandard

from support.users.fixed_place import COPY, DATA, HOME, PLACE, PROJECT, USER, FixedPlace, held
from support.vault.closed import open_below

ARCHIVES = f"{PLACE}/archives"
IDENTITY = f"{USER}/archive.key"
USERS = (USER, f"{PLACE}/second", f"{PLACE}/bare")
#: Answers that differ from day to day, from machine to machine, or from one wording to another.
PASSING = frozenset(
    "age text texts next words verdict seconds free_bytes next_run added_bytes_per_day added_bytes_last_week "
    "command restore reasons number numbered program".split()
)


def pack(root: str, path: str) -> None:
    """One file of it all, with times to the nanosecond; what is random and can be made again stays out."""
    moments = {}
    names = []
    for directory, below, files in os.walk(root):
        for name in sorted([*below, *files]):
            if name == "safekept-reserve":
                continue
            found = os.path.join(directory, name)
            relative = os.path.relpath(found, root)
            names.append(relative)
            moments[os.fsencode(relative).hex()] = os.lstat(found).st_mtime_ns
    with open(os.path.join(root, "moments.json"), "w") as file:
        json.dump(moments, file)
    compressor = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(19, window_log=26)
    )
    with open(path, "wb") as raw, compressor.stream_writer(raw) as stream:
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for name in ["moments.json", *names]:
                archive.add(os.path.join(root, name), name, recursive=False)
    os.unlink(os.path.join(root, "moments.json"))


def unpack(path: str, root: str) -> None:
    """The place as it was packed."""
    os.makedirs(root)
    with (
        open(path, "rb") as raw,
        zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw) as stream,
    ):
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            archive.extractall(root, filter="fully_trusted")
    with open(os.path.join(root, "moments.json")) as file:
        moments = json.load(file)
    os.unlink(os.path.join(root, "moments.json"))
    for name in sorted(moments, reverse=True):
        found = os.path.join(root, os.fsdecode(bytes.fromhex(name)))
        os.utime(found, ns=(moments[name], moments[name]), follow_symlinks=False)


def readings(place: FixedPlace) -> dict[str, Any]:
    """Everything that can be asked without changing anything."""
    questions = {
        "log": ["log", "--all"],
        "status": ["status"],
        "snapshots": ["snapshot", "list", "--all"],
        "history": ["history", "memories/MEMORY.md", "--home", HOME],
        "sessions": ["sessions", "list", "--from", "first"],
        "checkpoints": ["checkpoint", "status"],
        "all points": ["checkpoint", "list", "--all"],
        "points": ["rollback", "--all", "--dir", PROJECT],
        "home points": ["rollback", "--all", "--dir", HOME],
        "destinations": ["destinations", "list"],
        "destination": ["destinations", "show", "disk"],
        "connections": ["connect"],
        "keys": ["vault", "key", "list"],
        "schedule": ["schedule", "show"],
        "stats": ["vault", "stats"],
    }
    found = dict(zip(questions, place.ask(*questions.values()), strict=True))
    # The hour, what is over after some days, and how much room a file takes on this disk.
    del found["status"]["time"], found["checkpoints"]["dropped"], found["checkpoints"]["dropped_until"]
    del found["status"]["checkpoints"]["bytes"], found["checkpoints"]["size"]
    for one in found["snapshots"]["snapshots"]:
        if one["pinned_until"]:
            del one["pinned"]  # until then
    found["snapshots"]["snapshots"] = {one["id"]: one for one in found["snapshots"]["snapshots"]}
    for name in ("points", "home points", "all points"):
        for kind in ("checkpoints", "home_points"):
            listed = found[name].get(kind, ())
            # A look may leave a point of its own behind.
            found[name][kind] = {one["id"]: one for one in listed if one["reason"] != "looked at"}
    return found


def operations(place: FixedPlace, log: Any) -> dict[str, Any]:
    """Of every operation of the log all that the journal has, and whether it can be taken back."""
    names = [one["operation"] for one in log["operations"]]
    return dict(zip(names, place.ask(*(["log", name] for name in names)), strict=True))


def journal_lines(place: FixedPlace, user: str = USER) -> list[Any]:
    with open(place.at(f"{user}/.local/share/safekept/journal.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def receipts(place: FixedPlace) -> dict[str, Any]:
    """As they lie there, by their names."""
    found = {}
    directory = place.at(f"{DATA}/receipts")
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            found[name.removesuffix(".json")] = json.load(file)
    return found


def restored_snapshots(place: FixedPlace, listing: dict[str, Any]) -> dict[str, Any]:
    """What each snapshot gives back; forgotten ones are called back first."""
    forgotten = [name for name, one in listing.items() if one["forgotten"]]
    place.ask(
        *([["snapshot", "forget", "--undo", *forgotten]] if forgotten else []),
        *(["snapshot", "restore", name, "--into", f"{PLACE}/restored/{name}", "--yes"] for name in listing),
    )
    return {name: held(place.at(f"{PLACE}/restored/{name}")) for name in listing}


def imported_archives(place: FixedPlace) -> dict[str, Any]:
    """What each archive gives back."""
    found = {}
    names = sorted(
        os.path.relpath(os.path.join(directory, name), place.at(ARCHIVES))
        for directory, _, names in os.walk(place.at(ARCHIVES))
        for name in names
        if ".safekept-trash" not in directory
    )
    for number, name in enumerate(names):
        into = f"{PLACE}/imported/{number}"
        place.ask(["import", f"{ARCHIVES}/{name}", "--into", into, "--identity", IDENTITY, "--force"])
        found[name] = held(place.at(into))
    return found


def rolled_back(place: FixedPlace, points: dict[str, Any]) -> dict[str, Any]:
    """The project as each of its points has it, and the home as each of its own has it."""
    commands = []
    for name, one in points.items():
        where = HOME if one["kind"] == "home" else PROJECT
        commands += [["rollback", name, "--dir", where, "--overwrite-mine"], [COPY, where, f"{PLACE}/{name}"]]
    place.ask(*commands)
    return {name: held(place.at(f"{PLACE}/{name}"), times=False) for name in points}


def undone(place: FixedPlace, known: dict[str, Any], scratch: str) -> dict[str, Any]:
    """What is there after an operation was taken back: for each that can be, in a copy of its own."""
    found = {}
    for name, about in known.items():
        if not about["undo"]["possible"]:
            continue
        copy = place.copy(os.path.join(scratch, name))
        _, snapshots, points = copy.ask(
            ["undo", name], ["snapshot", "list", "--all"], ["checkpoint", "list", "--all"]
        )
        found[name] = {
            "verb": about["verb"],
            "home": held(copy.at(HOME), times=False),
            "project": held(copy.at(PROJECT), times=False),
            "archives": sorted(held(copy.at(ARCHIVES))),
            "forgotten": sorted(one["id"] for one in snapshots["snapshots"] if one["forgotten"]),
            "points": sorted(
                one["id"] for one in points["checkpoints"] if one["kind"] not in ("undo", "after")
            ),
        }
        shutil.rmtree(open_below(copy.directory))
    return found


def unlike(recorded: Any, today: Any, where: str = "", passing: frozenset[str] = PASSING) -> Iterator[str]:
    """Where today's answer is not what was recorded, a line each. Keys may be added, never lost."""
    if isinstance(recorded, dict) and isinstance(today, dict):
        for name, value in recorded.items():
            if name in passing:
                continue
            if name not in today:
                yield f"{where}/{name} is not there any more; it was {value!r}"[:500]
            else:
                yield from unlike(value, today[name], f"{where}/{name}", passing)
    elif isinstance(recorded, list) and isinstance(today, list):
        if len(recorded) != len(today):
            yield f"{where} has {len(today)} and not {len(recorded)}: {today!r} and not {recorded!r}"[:500]
            return
        for number, (one, other) in enumerate(zip(recorded, today, strict=True)):
            yield from unlike(one, other, f"{where}/{number}", passing)
    elif recorded != today:
        yield f"{where} is {today!r} and not {recorded!r}"[:500]
