"""The real restic, and the repositories that others wrote."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable

import pytest

from support.places import CHECKOUT
from support.vault.restics import Restic

MISSING = "MISSING REAL PART: "
#: That of Debian's next release (0.18.0), which `workshop/prepare test` unpacks from its package.
NEWER = os.path.join(CHECKOUT, ".setup", "restic-newer")


def missing_part(what: str) -> None:
    """Skip loudly; fail where nothing may be skipped."""
    if os.environ.get("CI") == "true":
        pytest.fail(MISSING + what)
    pytest.skip(MISSING + what)


@pytest.fixture(scope="session", params=["installed", "newer"])
def restic_program(request: pytest.FixtureRequest) -> str:
    """The distribution's restic (0.14.0 or newer), and a newer one where the set-up could fetch it."""
    if request.param == "newer":
        found = shutil.which("restic", path=NEWER)
        if found is None:
            missing_part(f"there is no newer restic in {NEWER}; `workshop/prepare test` says why")
        return str(found)
    found = shutil.which("restic")
    if found is None:
        missing_part("restic is not installed; `apt-get install restic` brings it")
    return str(found)


@pytest.fixture
def restic(restic_program: str, tmp_path: object) -> Callable[[str, str], Restic]:
    """`restic(path, password)` gives a runner for that repository; with each restic there is."""
    cache = os.path.join(str(tmp_path), "restic-cache")
    os.makedirs(cache, exist_ok=True)
    return lambda path, password: Restic(restic_program, path, password, cache)


@pytest.fixture
def installed_restic(tmp_path: object) -> Callable[[str, str], Restic]:
    """The same with the distribution's restic only, for what does not differ between releases."""
    found = shutil.which("restic")
    if found is None:
        missing_part("restic is not installed; `apt-get install restic` brings it")
    cache = os.path.join(str(tmp_path), "restic-cache")
    os.makedirs(cache, exist_ok=True)
    return lambda path, password: Restic(str(found), path, password, cache)


@pytest.fixture
def unpacked(tmp_path: object) -> Callable[[str], str]:
    """`unpacked(name)` gives the path of a repository that nothing here can write, from `../shared`."""
    fixtures = os.path.join(os.path.dirname(CHECKOUT), "shared", "fixtures", "restic")

    def unpack(name: str) -> str:
        archive = os.path.join(fixtures, f"{name}.tar.gz")
        if not os.path.exists(archive):
            pytest.skip(f"an extra that is not here: repositories of other programs in {fixtures}")
        place = os.path.join(str(tmp_path), name)
        with tarfile.open(archive) as file:
            file.extractall(place, filter="data")
        (root,) = [directory for directory, _, names in os.walk(place) if "config" in names]
        return root

    return unpack
