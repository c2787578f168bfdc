"""Every benchmark, one after the other, as one document: machine, versions, ratios, spread, limits.

`--quick` takes small sizes, for trying: its figures are not the product's. `--only` names some of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, "benchmarks")]

from report.promises import Verdict  # noqa: E402
from report.results import machine  # noqa: E402

#: In the order in which they run, each with the options that make it small.
QUICK = {
    "start": ["--rounds", "3"],
    "checkpoints": ["--quick"],
    "hooks": ["--quick"],
    "archive": ["--size", "0.1", "--rounds", "1", "--growth", ""],
    "seal": ["--size", "0.1", "--rounds", "1"],
    "vault": ["--size", "0.1", "--days", "2", "--growth", "", "--snapshots", ""],
    "lean": ["--size", "0.1", "--days", "0"],
    "belt": ["--rounds", "3"],
    "keeper": ["--rounds", "2"],
    "hidden": ["--scale", "0.05", "--rounds", "3", "--turns", "3"],
    "guard": ["--size", "0.1", "--rounds", "2", "--growth", ""],
    "ui": ["--quick", "--rounds", "3"],
    "push": ["--size", "0.1", "--rounds", "1", "--nights", "1"],
    "scale": [
        *("--homes", "0.1", "--snapshots", "20,60", "--files", "1000,4000"),
        *("--projects", "2,6", "--agents", "1,4"),
    ],
}


def run(name: str, quick: bool) -> dict[str, object]:
    """One benchmark's document, with how long it took; or how it failed."""
    script = os.path.join(CHECKOUT, "benchmarks", f"bench_{name}.py")
    command = [sys.executable, script, "--json", *(QUICK[name] if quick else [])]
    began = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    facts: dict[str, object] = {"seconds": round(time.monotonic() - began, 1)}
    try:
        facts.update(json.loads(done.stdout))
    except ValueError:
        # What it could not measure has no document; what it said stands on the screen.
        facts["failed"] = done.returncode
    return facts


def lines_of(name: str, found: dict[str, object]) -> list[str]:
    """The promises of one benchmark, and its limit."""
    if "failed" in found:
        return [f"\n{name}: FAILED with {found['failed']}"]
    verdicts = found["verdicts"]
    assert isinstance(verdicts, list)
    shown = [Verdict(**{key: value for key, value in one.items() if key != "passed"}) for one in verdicts]
    return [f"\n{name} ({found['seconds']} s)", *(one.line() for one in shown), f"  {found['limit']}"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench all", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the one document")
    parser.add_argument("--quick", action="store_true", help="small sizes, for trying")
    parser.add_argument("--only", default=",".join(QUICK), help="some of: %(default)s")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := [name for name in names if name not in QUICK]:
        parser.error(f"no benchmark is called {', '.join(unknown)}")
    found: dict[str, dict[str, object]] = {}
    load = os.getloadavg()
    for name in names:
        print(f"── {name}", file=sys.stderr, flush=True)
        found[name] = run(name, options.quick)
        if not options.json:
            print("\n".join(lines_of(name, found[name])), flush=True)
    if options.json:
        document = {
            "version": 1,
            "quick": options.quick,
            "machine": machine(),
            "load_before": load,
            "benches": found,
        }
        print(json.dumps(document, indent=2))
    return 1 if any("failed" in one for one in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
