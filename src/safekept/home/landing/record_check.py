"""Whether a landing's record says only what a landing of ours can have written.

It is acted on without asking anybody, so nothing in it is believed: every field has its kind, every number
its range, every name stays where it belongs. A wrong one is a ValueError, and nothing of it is done.
"""

from __future__ import annotations

import re

from safekept.core.sqlite import SIDECARS

from .record import AWAY, MAKE, POUR, PUT, UNMAKE, LandingRecord, Root, Step

_OPERATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LABEL = re.compile(r"home|external-[1-9][0-9]{0,5}")
_VERBS = ("land", "undo")
_KINDS = (PUT, AWAY, MAKE, UNMAKE, POUR)


def check_header(record: LandingRecord, operation: str) -> None:
    """`operation` is the name of the landing's own directory."""
    _need(record.operation == operation and _is(record.operation), "an operation of another name")
    _need(not record.undoes or _is(record.undoes), "a name of an operation that is none")
    _need(record.verb in _VERBS, "something that is neither a landing nor an undo")
    _need(0 <= record.process < 1 << 32, "a process that cannot be")
    _need(bool(record.roots), "no root")
    for number, root in enumerate(record.roots):
        _need(
            all(isinstance(one, str) for one in (root.label, root.base, root.name)), "a root without a name"
        )
        label = "home" if number == 0 else f"external-{number}"
        _need(root.label == label and bool(_LABEL.fullmatch(root.label)), "a root of another label")
        _need(root.base.startswith("/") and "\0" not in root.base, "a base that is no place")
        _need({"..", "."}.isdisjoint(root.base.split("/")), "a base that leads elsewhere")
        _need(_stays(root.name), "a root that leaves its base")


def check_record(record: LandingRecord, operation: str) -> None:
    """The header, and every step and directory: each within the root that it names."""
    check_header(record, operation)
    for number, step in enumerate(record.steps):
        _check_step(step, record.roots)
        _need(step.number == number, "steps that are not in their order")
    for before in record.directories:
        numbers = (before.root, before.mode, before.mtime_ns)
        _need(all(type(one) is int for one in numbers), "a directory of odd facts")
        _need(0 <= before.root < len(record.roots) and 0 <= before.mode <= 0o7777, "a directory of odd facts")
        _need(_within(before.path, record.roots[before.root], above=True), "a directory outside its root")
    for note in record.notes:
        _need(type(note.get("step")) is int, "a note about nothing")


def _check_step(step: Step, roots: list[Root]) -> None:
    numbers = (step.number, step.root, step.size, step.mtime_ns)
    _need(all(type(one) is int for one in numbers) and step.size >= 0, "a step of odd numbers")
    _need(type(step.had) is bool and type(step.database) is bool, "a step of odd facts")
    _need(step.do in _KINDS and isinstance(step.entry, str), "a step of an odd kind")
    _need(0 <= step.root < len(roots), "a step in no root")
    making = step.do in (MAKE, UNMAKE)
    _need(_within(step.path, roots[step.root], above=making), "a step that leaves its root")
    _need(step.staged == "" or _stays(step.staged), "a step that leaves what is staged")
    _need(
        isinstance(step.carries, list | tuple) and set(step.carries) <= set(SIDECARS),
        "a step with odd sidecars",
    )


def _within(path: object, root: Root, *, above: bool) -> bool:
    """At or below the root; with `above` also a directory that leads to it."""
    if not isinstance(path, str) or not _stays(path):
        return False
    return (
        path == root.name or path.startswith(root.name + "/") or (above and root.name.startswith(path + "/"))
    )


def _stays(path: object) -> bool:
    """Relative, and no part of it leads anywhere else."""
    return isinstance(path, str) and "\0" not in path and {"", ".", ".."}.isdisjoint(path.split("/"))


def _is(operation: str) -> bool:
    return bool(_OPERATION.fullmatch(operation))


def _need(held: bool, otherwise: str) -> None:
    if not held:
        raise ValueError(f"a record with {otherwise}")
