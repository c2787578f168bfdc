"""Landing, capture, checkpoints, vault and hooks on another platform than the one that they were written on.

Once with everything switched off that `SAFEKEPT_PLATFORM_WITHOUT` knows, once on a disk that ignores case and
has no links and no modes. What needs `/proc` is run once more with `lsof`, `ps` and `mount` in its place, as
macOS has them. `./test --soak platform -s` runs all of their tests there and prints counts; a few run by
default. What a platform cannot give is said by `needs` on the test itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator

import pytest

from conftest import MISSING, missing_part
from safekept.core.platform import system
from support.places import CHECKOUT
from support.platforms.disks import NoSuchDisk, exfat

ROOMS = {
    "landing": ("unit/home", "unit/actions/restoring", "golden/restoring", "faults/home"),
    "capture": ("unit/core/sqlite", "unit/core/files"),
    "checkpoints": ("unit/checkpoints", "unit/actions/projects", "faults/projects/test_rollback_disks.py"),
    "vault": ("unit/vault", "unit/actions/snapshots"),
    "hooks": ("unit/integrations", "unit/actions/hosts", "golden/hosts"),
}
SAMPLE = (
    "unit/checkpoints/test_named.py",
    "unit/home/landing/test_landing_undo.py",
    "unit/vault/test_homes.py",
)
WITH_PROGRAMS = ("unit/core/sqlite/test_judging.py", "unit/home/landing/test_landing_databases.py")
ON_DISK = ("unit/actions/restoring/test_rebuild_ground.py", "unit/checkpoints/test_named.py")
_SOAK = "platform"


def run_tests(paths: tuple[str, ...], root: str, *options: str, **environment: str) -> Counter[str]:
    """Run tests in a process of its own, with their files below `root`; how many ended how."""
    handle, report = tempfile.mkstemp(suffix=".xml")
    os.close(handle)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", "--timeout=300"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, f"--junitxml={report}", *options, *(f"tests/{path}" for path in paths)],
        cwd=CHECKOUT,
        env={**kept, "PYTEST_DEBUG_TEMPROOT": root, "TMPDIR": root, **environment},
        capture_output=True,
        text=True,
    )
    counts: Counter[str] = Counter()
    failed = []
    assert done.returncode in (0, 1), done.stdout[-4000:] + done.stderr[-4000:]
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kind = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        if kind == "skipped" and "needs " in (case[0].get("message") or ""):
            kind = "cannot be had there"
        if kind in ("failure", "error"):
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        counts[kind] += 1
    os.unlink(report)
    print(f"{' '.join(paths)}: " + ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())))
    assert not failed, "\n".join([f"{len(failed)} of {counts.total()}:", *failed[:200]])
    assert counts["passed"] > 0
    return counts


@pytest.fixture(scope="module")
def short_root() -> Iterator[str]:
    """Without `/proc` a socket is reached by its path, which must be short."""
    with tempfile.TemporaryDirectory(prefix="sk-", dir="/tmp", ignore_cleanup_errors=True) as place:
        yield place


@pytest.fixture(scope="module")
def case_blind_disk(request: pytest.FixtureRequest) -> Iterator[str]:
    """An exFAT; where none can be mounted a loud gap, and a failure under CI only where it was asked for."""
    with tempfile.TemporaryDirectory(prefix="sk-", dir="/tmp", ignore_cleanup_errors=True) as place:
        os.mkdir(os.path.join(place, "x"))
        try:
            with exfat(os.path.join(place, "image"), os.path.join(place, "x"), 8192) as disk:
                yield disk
        except NoSuchDisk as error:
            if _SOAK in request.config.getoption("--soak"):
                missing_part(f"a disk that ignores case: {error}")
            pytest.skip(f"{MISSING}a disk that ignores case: {error}")


def test_a_sample_holds_with_every_feature_switched_off(short_root):
    run_tests(SAMPLE, short_root, **{system.VARIABLE: "all"})


def test_a_sample_holds_on_a_disk_that_ignores_case(case_blind_disk):
    run_tests(ON_DISK, case_blind_disk)


def test_a_sample_holds_with_programs_in_place_of_proc(short_root):
    run_tests(WITH_PROGRAMS, short_root, "-m", "needs", **{system.VARIABLE: "linux"})


@pytest.mark.soak(_SOAK)
@pytest.mark.parametrize("room", ROOMS)
def test_it_holds_with_every_feature_switched_off(room, short_root):
    run_tests(ROOMS[room], short_root, **{system.VARIABLE: "all"})


@pytest.mark.soak(_SOAK)
def test_what_needs_something_holds_with_programs_in_place_of_proc(short_root):
    everywhere = tuple(path for paths in ROOMS.values() for path in paths)
    run_tests(everywhere, short_root, "-m", "needs", **{system.VARIABLE: "linux"})


@pytest.mark.soak(_SOAK)
@pytest.mark.parametrize("room", ROOMS)
def test_it_holds_on_a_disk_that_ignores_case(room, case_blind_disk):
    run_tests(ROOMS[room], case_blind_disk)
