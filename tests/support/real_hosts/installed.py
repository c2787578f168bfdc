"""Where `./test --hosts` put the real hosts, and which versions they are."""

from __future__ import annotations

import json
import os

#: `workshop/prepare hosts` prints it; the tests have another HOME and could not find it.
PLACE = os.environ.get("SAFEKEPT_TEST_HOSTS", "")
PACKAGES = os.path.join(PLACE, "node_modules")
#: The programs, and the node that they run with.
BIN = os.path.join(PACKAGES, ".bin")


def version_of(package: str) -> str:
    """ "" where it is not there."""
    try:
        with open(os.path.join(PACKAGES, package, "package.json"), encoding="utf-8") as file:
            return str(json.load(file)["version"])
    except (OSError, ValueError, KeyError):
        return ""
