"""The lines that a restore would change, for a person who is asked to agree to its plan."""

from __future__ import annotations

import os

from safekept.core.files.small import read_start

from ..restoring.restore import PreparedRestore
from ..snapshots.contents import LARGEST_TEXT, patch, text_of

#: Files whose lines are shown; a plan of more is read as a list.
MOST_FILES = 8


def plan_patches(prepared: PreparedRestore, most: int = MOST_FILES) -> dict[str, list[str]]:
    """From each file as it is now to the one that would come; secrets and databases are left out."""
    plan, layout, found = prepared.plan, prepared.place.layout, dict[str, list[str]]()
    for path in (*plan.replace, *plan.create):
        if len(found) >= most:
            break
        node = prepared.source.node(path)
        if node is None or node.type != "file" or node.size > LARGEST_TEXT or layout.secret(path):
            continue
        item = plan.items[path]
        now = _text(os.path.join(plan.roots[item.root].base, item.place))
        then = None if path in plan.compared else text_of(prepared.source, path, node)
        if then is not None and now is not None:
            found[path] = patch(path, now, then)
    return found


def _text(path: str) -> str | None:
    """A live file as text; nothing where there is none, None where it is no text or a large one."""
    try:
        data = read_start(path, LARGEST_TEXT + 1, follow=False)
    except FileNotFoundError:
        return ""
    except OSError:
        return None
    if len(data) > LARGEST_TEXT or b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None
