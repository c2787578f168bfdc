"""Whether the fuzz run sees what it is there for: every way to change something, and a bad landing.

    trials.py ways DIRECTORY        every way to change something, outside and inside: what was seen
    trials.py landing DIRECTORY     the target `landing` with a landing that trusts every record

Prints one JSON document.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

from support.fuzz.outside import Outside, TreeOutside, watch


def ways(place: str, own: str) -> dict[str, Callable[[], object]]:
    """Ways to change something in `place`, and one name in `own` that leads there."""
    at = os.open(place, os.O_RDONLY)
    beside = os.open(own, os.O_RDONLY)
    leading = os.path.relpath(place, own)
    secret = os.open(f"{place}/secret", os.O_RDONLY)
    link = f"{own}/link-{os.path.basename(place)}"
    os.symlink(place, link)
    os.symlink(f"{place}/secret", link + "-file")
    new = os.O_WRONLY | os.O_CREAT
    return {
        "open by its directory": lambda: os.open("new", new, dir_fd=at),
        "open to write by its directory": lambda: os.open("secret", os.O_WRONLY, dir_fd=at),
        "open beside another directory": lambda: os.open(f"{leading}/new2", new, dir_fd=beside),
        "open through a link": lambda: open(f"{link}/new3", "w"),
        "open a link to a file": lambda: open(link + "-file", "a"),
        "make a directory": lambda: os.mkdir("new4", dir_fd=at),
        "remove": lambda: os.unlink("precious/one", dir_fd=at),
        "rename away": lambda: os.rename("precious/state.db", "taken", src_dir_fd=at, dst_dir_fd=beside),
        "rename to": lambda: os.rename("mine", "secret2", src_dir_fd=beside, dst_dir_fd=at),
        "link to": lambda: os.link(f"{own}/other", "secret3", dst_dir_fd=at),
        "a link": lambda: os.symlink("anything", "secret4", dir_fd=at),
        "rights by its directory": lambda: os.chmod("secret", 0o777, dir_fd=at),
        "rights of an open file": lambda: os.fchmod(secret, 0o777),
        "rights through a link": lambda: os.chmod(link + "-file", 0o700),
        "times": lambda: os.utime("secret", ns=(5, 5), dir_fd=at),
        "times through a link": lambda: os.utime(link + "-file", ns=(5, 5)),
        "length": lambda: os.truncate(f"{place}/secret", 5),
        "a program": lambda: subprocess.run(["touch", f"{place}/new5"], check=True),
    }


def try_ways(directory: str) -> dict[str, list[str]]:
    """Names of ways that were not seen outside, and of those that were seen inside."""
    tree = TreeOutside(os.path.join(os.path.dirname(directory), "outside"))
    mine = TreeOutside(os.path.join(directory, "mine"))
    for name in ("mine", "other"):
        with open(os.path.join(mine.place, name), "w") as file:
            file.write("mine\n")
    outside, inside = ways(tree.place, mine.place), ways(mine.place, mine.place)
    watch(directory)
    missed, wrong = [], []
    for name, way in outside.items():
        try:
            way()
        except Outside:
            continue
        if not tree.changed():
            missed.append(name)
        tree.look()
    for name, way in inside.items():
        try:
            way()
        except Outside:
            wrong.append(name)
    return {"tried": list(outside), "missed": missed, "wrong": wrong}


def bad_landing(directory: str) -> dict[str, object]:
    """The landing of before: it takes back whatever a record says, wherever that is."""
    from safekept.home.landing import recovery
    from support.fuzz import targets, worker
    from support.fuzz.inputs import Maker

    recovery.trusted = lambda *_: True  # type: ignore[assignment]
    honest = targets.TARGETS["landing"]
    base = os.path.dirname(directory)

    def target(place: str) -> targets.Target:
        made = honest(place)
        header, *_ = map(json.loads, made.honest[0].splitlines())
        header["roots"] = [{"label": "home", "base": base, "name": "outside"}]
        step = {
            "number": 0,
            "do": "away",
            "root": 0,
            "path": "outside/secret",
            "entry": "secret",
            "had": True,
        }
        forged = b"".join(json.dumps(line).encode() + b"\n" for line in (header, step))
        return targets.Target(Maker(lambda source: forged, ()), made.take, sample=1)

    targets.TARGETS["landing"] = target
    return worker.main("landing", 1, 0, directory)


if __name__ == "__main__":
    found = (try_ways if sys.argv[1] == "ways" else bad_landing)(sys.argv[2])
    print(json.dumps(found), flush=True)
