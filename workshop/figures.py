"""How large the code is and what a command costs to start: figures that two states of it are compared by.

    workshop/measure                          this checkout
    workshop/measure OLD NEW                  two checkouts, timed in turn, with NEW as a share of OLD
    workshop/measure --json --runs 15         as one JSON document; more runs where the machine is busy

Each checkout must have its `.venv` (any command of its launcher makes it). Everything runs in a throwaway
place. On a busy machine trust the ratios, and of them those of the processor's time more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

# `-I` keeps the directory of this file off the path.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from figures_source import source_figures
from figures_start import start_figures

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkouts", nargs="*", default=[HERE], metavar="CHECKOUT")
    parser.add_argument("--runs", type=int, default=9, help="how often each command is timed (9)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    words = parser.parse_args()
    checkouts = [os.path.abspath(checkout) for checkout in words.checkouts]
    started = start_figures(checkouts, words.runs)
    found = [
        {
            "checkout": checkout,
            "commit": _commit(checkout),
            "runs": words.runs,
            "source": source_figures(os.path.join(checkout, "src", "safekept")),
            "start": start,
        }
        for checkout, start in zip(checkouts, started, strict=True)
    ]
    if words.json:
        sys.stdout.write(json.dumps(found if len(found) > 1 else found[0], indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(line for one in found for line in _told(one)) + "\n")
        if len(found) == 2:
            sys.stdout.write("\n".join(_compared(*found)) + "\n")
    return 0


def _commit(checkout: str) -> str:
    told = subprocess.run(
        ["git", "-C", checkout, "log", "-1", "--format=%h %s"], capture_output=True, text=True
    )
    return told.stdout.strip()


def _told(one: dict[str, object]) -> list[str]:
    source, start = one["source"], one["start"]
    assert isinstance(source, dict) and isinstance(start, dict)
    lines = [
        f"{one['checkout']}  ({one['commit']})",
        "",
        f"modules                  {source['modules']:>7,}",
        f"code lines               {source['code_lines']:>7,}   without blanks, comments, docstrings",
        f"import lines             {source['import_lines']:>7,}   {source['import_share']:.1%} of them",
        f"folders                  {source['folders']:>7,}",
        f"files per folder         {source['files_per_folder_median']:>7g}   median; "
        f"p90 {source['files_per_folder_p90']}, largest {source['files_per_folder_largest']}",
        f"class names there twice  {source['class_names_twice']:>7,}   within one floor",
    ]
    for floor, names in source["class_names_twice_by_floor"].items():
        lines.append(f"  {floor}: {', '.join(names)}")
    largest = ", ".join(f"{folder} {count}" for folder, count in source["largest_folders"].items())
    lines += [f"largest folders: {largest}", ""]
    lines.append(f"medians of {one['runs']} runs; `python3 -c pass` took {start['pass_milliseconds']} ms")
    lines.append(f"{'command':<12}{'start':>8}{'cpu':>8}{'modules':>9}  of which")
    for command, figures in start["commands"].items():
        rooms = ", ".join(f"{room} {count}" for room, count in figures["rooms"].items())
        ratios = f"{figures['start_ratio']:>7}x{figures['processor_ratio']:>7}x"
        lines.append(f"{command:<12}{ratios}{figures['modules']:>9}  {rooms}")
    return [*lines, ""]


def _compared(old: dict[str, object], new: dict[str, object]) -> list[str]:
    """What the second is of the first, from one run."""
    lines = ["the second as a share of the first: wall time, processor time, modules imported"]
    before, after = old["start"], new["start"]
    assert isinstance(before, dict) and isinstance(after, dict)
    for command, figures in after["commands"].items():
        first = before["commands"][command]
        shares = (figures[name] / first[name] for name in ("milliseconds", "processor_ratio", "modules"))
        lines.append(f"{command:<12}" + "".join(f"{share:>8.0%}" for share in shares))
    return lines


if __name__ == "__main__":
    sys.exit(main())
