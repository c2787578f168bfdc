"""How long does the page take, beside `safekept status` of the same state, and what does it weigh?

See README.md for the data and the method. Prints the ratios with their targets; `--json` every measurement.
"""

from __future__ import annotations

import argparse
import http.client
import os
import statistics
import subprocess
import sys
import time

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(CHECKOUT, place) for place in ("benchmarks", "src", "tests")]

from made.histories import context_of_user, make_checkpoints, make_snapshots  # noqa: E402
from report.ending import finish  # noqa: E402
from report.measure import resident_of_tree  # noqa: E402
from report.promises import Verdict, held  # noqa: E402
from report.scratch import Scratch  # noqa: E402
from support.home.homes import make_hermes_home  # noqa: E402
from support.ui.served import ServedPage  # noqa: E402

#: Snapshots, projects, checkpoints of each.
WHOLE, QUICK = (1000, 200, 100), (100, 20, 10)
#: What a browser loads with the first view.
BESIDE = ("/static/page.css", "/static/page.js", "/static/icon.svg")


def make_user(user: str, amounts: tuple[int, int, int]) -> str:
    """A user with that much behind them; returns one of the projects."""
    snapshots, projects, each = amounts
    context = context_of_user(user)
    home = os.path.join(user, ".hermes")
    make_hermes_home(home, profiles=(), awkward=False)
    make_snapshots(context, home, snapshots)
    return make_checkpoints(context, os.path.join(user, "code"), projects, each)[0]


def status_seconds(user: str, rounds: int) -> list[float]:
    """`safekept status`, as a person calls it."""
    environment = {**os.environ, "HOME": user, "HERMES_HOME": os.path.join(user, ".hermes")}
    environment["PYTHONPATH"] = os.path.join(CHECKOUT, "src")
    found = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "safekept", "status"],
            env=environment,
            cwd=user,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        found.append(time.perf_counter() - began)
    return found[1:]  # the first one fills caches


def asked(page: ServedPage, path: str) -> tuple[float, float, int]:
    """Seconds to the first byte and to the last, and how many bytes came."""
    connection = http.client.HTTPConnection(page.authority, timeout=120)
    began = time.perf_counter()
    connection.request("GET", path, headers={"Cookie": page.cookie})
    answer = connection.getresponse()
    first = time.perf_counter() - began
    body = answer.read()
    assert answer.status == 200, body[:500]
    connection.close()
    return first, time.perf_counter() - began, len(body)


def first_view(page: ServedPage) -> dict[str, float]:
    """Everything that a browser loads before a person sees the page."""
    began = time.perf_counter()
    first, _, size = asked(page, "/")
    size += sum(asked(page, path)[2] for path in BESIDE)
    return {"first_byte": first, "whole": time.perf_counter() - began, "bytes": size}


def measured(user: str, project: str, rounds: int) -> dict[str, object]:
    """All of it, of one user."""
    with ServedPage(user) as page:
        page.enter()
        cold = first_view(page)
        views = [first_view(page) for _ in range(rounds)]
        timelines = [asked(page, "/timeline") for _ in range(rounds)]
        points = [asked(page, f"/timeline?project={project}") for _ in range(rounds)]
        memory = resident_of_tree(page.process.pid)
    return {
        "status_seconds": statistics.median(status_seconds(user, rounds)),
        "first_view_cold": cold,
        "first_byte_seconds": statistics.median(one["first_byte"] for one in views),
        "first_view_seconds": statistics.median(one["whole"] for one in views),
        "first_view_bytes": views[-1]["bytes"],
        "timeline_seconds": statistics.median(one[1] for one in timelines),
        "timeline_bytes": timelines[-1][2],
        "project_timeline_seconds": statistics.median(one[1] for one in points),
        "project_timeline_bytes": points[-1][2],
        "memory_bytes": memory,
    }


def verdicts(large: dict[str, object], small: dict[str, object]) -> list[Verdict]:
    def number(found: dict[str, object], name: str) -> float:
        value = found[name]
        assert isinstance(value, int | float)
        return float(value)

    def pace(name: str) -> float:
        return number(large, name) / number(small, name)

    view = number(large, "first_view_seconds") / number(large, "status_seconds")
    page = number(large, "timeline_bytes") / number(small, "timeline_bytes")
    return [
        held("ui", "complete first view, relative to safekept status", view),
        held("ui", "complete first view: KB in all", number(large, "first_view_bytes") / 1024),
        held("ui", "memory of the server", number(large, "memory_bytes") / 1e6),
        held("ui", "bytes of a page of the timeline, relative to a tenth of the history", page),
        held(
            "ui",
            "time of a page of the timeline, relative to a tenth of the history",
            pace("timeline_seconds"),
        ),
        held("ui", "the same of a project's", pace("project_timeline_seconds")),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="./bench ui", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print every measurement as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is asked")
    parser.add_argument("--quick", action="store_true", help="a tenth of the history")
    options = parser.parse_args()
    amounts = QUICK if options.quick else WHOLE
    found: dict[str, dict[str, object]] = {}
    with Scratch() as place:
        for name, sizes in (
            ("large", amounts),
            ("small", (max(60, amounts[0] // 10), amounts[1] // 10, amounts[2])),
        ):
            user = os.path.join(place, name)
            os.makedirs(user)
            found[name] = measured(user, make_user(user, sizes), options.rounds)
    lines = [f"  {'':<28} {'large':>12} {'small':>12}"]
    for name, value in found["large"].items():
        if isinstance(value, int | float):
            other = found["small"][name]
            title = name.replace("_", " ")
            lines.append(f"  {title:<28} {_shown(name, value):>12} {_shown(name, other):>12}")
    large = found["large"]
    limit = (
        "What is now the limit: the look at everything that the first view waits for; "
        f"its first byte came after {_shown('seconds', large['first_byte_seconds'])}."
    )
    document: dict[str, object] = {**found, "amounts": amounts}
    return finish(verdicts(large, found["small"]), document, lines, limit=limit, as_json=options.json)


def _shown(name: str, value: object) -> str:
    assert isinstance(value, int | float)
    return f"{value / 1024:.0f} KB" if name.endswith("bytes") else f"{1000 * value:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
