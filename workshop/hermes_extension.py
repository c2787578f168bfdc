"""Writes `extensions/hermes` anew: the plugin as a directory of its own, which Hermes's catalog points to.

It is what `safekept connect hermes` puts into a home, without what belongs to one home (`connection.json`)
and without the one file that changes a method of Hermes's: the catalog takes no plugin that does.
"""

from __future__ import annotations

import os
import shutil

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.path.join(CHECKOUT, "extensions", "hermes")
_PLUGIN = os.path.join(CHECKOUT, "src", "safekept", "integrations", "hermes", "plugin")
_CLIENT = os.path.join(CHECKOUT, "src", "safekept", "integrations", "helper", "client.py")
_CHANGES_HERMES = "explaining.py"


def sources() -> dict[str, str]:
    """Name in the extension -> the file that it is a copy of."""
    names = [name for name in sorted(os.listdir(_PLUGIN)) if name.endswith((".py", ".yaml"))]
    found = {name: os.path.join(_PLUGIN, name) for name in names if name != _CHANGES_HERMES}
    return {**found, os.path.basename(_CLIENT): _CLIENT}


def main() -> None:
    wanted = sources()
    for name in os.listdir(TARGET):
        if name.endswith((".py", ".yaml")) and name not in wanted:
            os.unlink(os.path.join(TARGET, name))
    for name, source in wanted.items():
        shutil.copyfile(source, os.path.join(TARGET, name))


if __name__ == "__main__":
    main()
