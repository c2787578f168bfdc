"""Our entries among the hooks of a host: put in, renewed, taken out; those of others stay as they are.

Four hosts keep hooks in JSON as `hooks -> event -> list of entries`. An entry is ours by the command that
it runs and by nothing else. What we add are entries of our own, never parts of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from safekept.core.records import dataclass

from .json_text import Node, add_item, add_member, parse, remove_item, remove_member, replace, written

Handler = Mapping[str, object]
Ours = Callable[[Handler], bool]


class NotHooks(ValueError):
    """The text is JSON, but not the settings that this host would read."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One entry that we want in the list of an event."""

    event: str
    entry: Mapping[str, object]


def handlers_of(entry: object) -> list[Handler]:
    """The commands of one entry: those in its own `hooks`, or the entry itself where the list is flat."""
    if not isinstance(entry, dict):
        return []
    inner = entry.get("hooks")
    found = inner if isinstance(inner, list) else [entry]
    return [one for one in found if isinstance(one, dict)]


def our_handlers(text: str, ours: Ours) -> list[Handler]:
    """Every command of ours that stands in a file."""
    if not text.strip("\ufeff \t\r\n"):
        return []
    root = parse(text)
    hooks = root.find("hooks") if root.kind == "object" else None
    if hooks is None or hooks.kind != "object":
        return []
    return [
        handler
        for member in hooks.members
        if member.node.kind == "array"
        for item in member.node.items
        for handler in handlers_of(item.plain())
        if ours(handler)
    ]


def put_in(
    text: str, wanted: Sequence[Wanted], ours: Ours, beside: Mapping[str, object] | None = None
) -> str:
    """The text with our entries as they should be; the same text where they are.

    `beside`: members that the file needs beside `hooks`, such as a version.
    """
    if not text.strip("\ufeff \t\r\n"):
        events: dict[str, list[object]] = {}
        for one in wanted:
            events.setdefault(one.event, []).append(one.entry)
        return written({**(beside or {}), "hooks": events})
    root = _checked(text, wanted)
    for key, value in (beside or {}).items():
        if root.find(key) is None:
            text = add_member(text, root, key, value)
            root = parse(text)
    text = _drop(text, ours, keep=[(one.event, one.entry) for one in wanted])
    for one in wanted:
        text = _add(text, one)
    return text


def _checked(text: str, wanted: Sequence[Wanted]) -> Node:
    """The root, where everything on our way is what it should be."""
    root = parse(text)
    if root.kind != "object":
        raise NotHooks("it is not a mapping")
    _once(root, "hooks")
    hooks = root.find("hooks")
    if hooks is None:
        return root
    if hooks.kind != "object":
        raise NotHooks("`hooks` in it is not a mapping")
    for event in dict.fromkeys(one.event for one in wanted):
        _once(hooks, event)
        found = hooks.find(event)
        if found is not None and found.kind != "array":
            raise NotHooks(f"`hooks.{event}` in it is not a list")
    return root


def _once(node: Node, key: str) -> None:
    if sum(member.key == key for member in node.members) > 1:
        raise NotHooks(f"`{key}` stands in it twice")


def _add(text: str, wanted: Wanted) -> str:
    root = parse(text)
    hooks = root.find("hooks")
    if hooks is None:
        return add_member(text, root, "hooks", {wanted.event: [wanted.entry]})
    found = hooks.find(wanted.event)
    if found is None:
        return add_member(text, hooks, wanted.event, [wanted.entry])
    if any(item.plain() == wanted.entry for item in found.items):
        return text
    return add_item(text, found, wanted.entry)


def take_out(text: str, ours: Ours, base: str | None) -> str | None:
    """The text without what is ours; None where nothing is left of a file that we made.

    `base` is the file as it was before it was connected: lists and mappings that it did not have, and that
    are empty now, go with our entries.
    """
    before = _keys(base)
    text = _drop(text, ours, keep=[])
    root = parse(text)
    hooks = root.find("hooks") if root.kind == "object" else None
    if hooks is not None and hooks.kind == "object":
        for event in [member.key for member in hooks.members if member.node.kind == "array"]:
            text = _without_empty(text, ["hooks"], event, before)
        text = _without_empty(text, [], "hooks", before)
    if base is None:
        left = parse(text).plain()
        if isinstance(left, dict) and left.keys() <= {"version"}:
            return None
    return text


def _keys(base: str | None) -> set[str]:
    """`hooks`, `hooks PreToolUse`, …: what the file had before; all of them where it cannot be known."""
    if base is None or not base.strip("\ufeff \t\r\n"):
        return set()
    root = parse(base)
    hooks = root.find("hooks")
    if hooks is None:
        return set()
    return {"hooks", *(f"hooks {member.key}" for member in hooks.members)}


def _without_empty(text: str, above: list[str], key: str, before: set[str]) -> str:
    node = parse(text)
    for name in above:
        found = node.find(name)
        if found is None:
            return text
        node = found
    number = next((at for at, member in enumerate(node.members) if member.key == key), None)
    if number is None or " ".join([*above, key]) in before:
        return text
    inner = node.members[number].node
    if inner.kind == "value" or inner.members or inner.items:
        return text
    return remove_member(text, node, number)


def _drop(text: str, ours: Ours, keep: list[tuple[str, Mapping[str, object]]]) -> str:
    """The text without our handlers, except the entries that are to stay, each of them once.

    An entry of ours with the same matcher as one that is to stay is renewed where it stands.
    """
    waiting = list(keep)
    while True:
        changed = _drop_one(text, ours, waiting)
        if changed is None:
            return text
        text, waiting = changed, list(keep)


def _drop_one(text: str, ours: Ours, waiting: list[tuple[str, Mapping[str, object]]]) -> str | None:
    """The text after the first change that is needed; None where none is."""
    root = parse(text)
    hooks = root.find("hooks") if root.kind == "object" else None
    if hooks is None or hooks.kind != "object":
        return None
    for member in hooks.members:
        if member.node.kind != "array":
            continue
        for number, item in enumerate(member.node.items):
            entry = item.plain()
            mine = [ours(handler) for handler in handlers_of(entry)]
            if not any(mine):
                continue
            if (member.key, entry) in waiting:
                waiting.remove((member.key, entry))
                continue
            if not all(mine):
                inner = item.find("hooks")
                assert inner is not None  # a flat entry has one handler, which is ours or not
                places = [at for at, one in enumerate(inner.items) if one.kind == "object"]
                return remove_item(text, inner, places[mine.index(True)])
            renewed = _same_place(member.key, entry, waiting, member.node)
            if renewed is not None:
                return replace(text, item, renewed)
            return remove_item(text, member.node, number)
    return None


def _same_place(
    event: str, entry: object, waiting: list[tuple[str, Mapping[str, object]]], among: Node
) -> Mapping[str, object] | None:
    """The entry that should stand where an older one of ours stands."""
    present = [item.plain() for item in among.items]
    matcher = entry.get("matcher") if isinstance(entry, dict) else None
    for one, wanted in waiting:
        if one == event and wanted.get("matcher") == matcher and wanted not in present:
            return wanted
    return None
