"""What a call came to as plain data, for the way from the child; root takes it for what a stranger says."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from ..checkpoint import Checkpoint, Skipped, is_checkpoint_id
from ..take.taken import Taken
from ..take.taking import Failure, Protection

#: More than this of anything is not what a call came to.
_MOST = 10_000


def protection_out(protection: Protection) -> dict[str, Any]:
    return {
        "taken": [
            [astuple(point) if point else None for point in (one.checkpoint, one.latest)]
            for one in protection.taken
        ],
        "skipped": [[one.path, one.reason, one.detail] for one in protection.skipped],
        "failures": [[one.project, one.code, one.what] for one in protection.failures],
        "notices": list(protection.notices),
    }


def protection_in(document: Any) -> Protection:
    return Protection(
        taken=[Taken(_point_in(first), _point_in(latest)) for first, latest in document["taken"][:_MOST]],
        skipped=[
            Skipped(str(path), str(why), str(detail)) for path, why, detail in document["skipped"][:_MOST]
        ],
        failures=[
            Failure(str(project), str(code), str(what))
            for project, code, what in document["failures"][:_MOST]
        ],
        notices=[str(text) for text in document["notices"][:_MOST]],
    )


def _point_in(document: Any) -> Checkpoint | None:
    if document is None:
        return None
    identity, project, time_ns, kind, reason, session, turn, commit, full, files, skipped = document
    if not is_checkpoint_id(str(identity)):
        raise ValueError("an id that is none")
    return Checkpoint(
        str(identity),
        str(project),
        int(time_ns),
        str(kind),
        str(reason),
        str(session),
        str(turn),
        str(commit),
        bool(full),
        int(files),
        int(skipped),
    )
