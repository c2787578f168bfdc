"""`safekept` in or out of `plugins.enabled` of Hermes's `config.yaml`, and every other byte as it was.

The text is edited, not rewritten, so comments, order and spelling stay. Every edit is proven before it
is given out: both texts are parsed, and they must differ in that one entry and nothing else. What cannot
be proven is not done.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

from ..connecting.settings_file import Unfit

NAME = "safekept"
LINES = f"plugins:\n  enabled:\n    - {NAME}\n"


def is_enabled(text: str) -> bool:
    """Whether Hermes loads the plugin by these settings."""
    plugins = _meaning(text).get("plugins")
    plugins = plugins if isinstance(plugins, dict) else {}
    return NAME in _listed(plugins.get("enabled")) and NAME not in _listed(plugins.get("disabled"))


def is_disabled(text: str) -> bool:
    """Whether the plugin was switched off by name."""
    plugins = _meaning(text).get("plugins")
    return isinstance(plugins, dict) and NAME in _listed(plugins.get("disabled"))


def enabled(text: str) -> str:
    """The settings with the plugin enabled; Unfit where that cannot be done safely."""
    before = _meaning(text)
    wanted = copy.deepcopy(before)
    plugins = _section(wanted)
    edited = text
    if NAME in _listed(plugins.get("disabled")):
        plugins["disabled"] = [one for one in plugins["disabled"] if one != NAME]
        edited = _without(edited, "disabled")
    if NAME not in _listed(plugins.get("enabled")):
        plugins["enabled"] = [NAME, *_listed(plugins.get("enabled"))]
        edited = _with(edited, "enabled")
    return _proven(edited, wanted)


def disabled(text: str, base: str | None) -> str:
    """The settings without the plugin. `base`: as they were before it came; what was there then stays."""
    before = _meaning(text)
    plugins = before.get("plugins")
    if not isinstance(plugins, dict) or NAME not in _listed(plugins.get("enabled")):
        return text
    if base is not None and _as_we_left_it(text, base):
        return base
    old = _meaning(base).get("plugins") if base is not None else None
    was = old if isinstance(old, dict) else {}
    wanted = copy.deepcopy(before)
    section = wanted["plugins"]
    section["enabled"] = [one for one in section["enabled"] if one != NAME]
    edited = _without(text, "enabled")
    if not section["enabled"] and "enabled" not in was:
        del section["enabled"]
        edited = _without_key(edited, "enabled")
        if not section and (base is None or "plugins" not in _meaning(base)):
            del wanted["plugins"]
            edited = _without_section(text)
    if "plugins" in wanted and NAME in _listed(was.get("disabled")):
        section["disabled"] = [NAME, *_listed(section.get("disabled"))]
        edited = _with(edited, "disabled")
    return _proven(edited, wanted)


def _as_we_left_it(text: str, base: str) -> bool:
    try:
        return enabled(base) == text
    except Unfit:
        return False


# ── what it means ──────────────────────────────────────────────────────────────────────────────────


@functools.lru_cache(maxsize=4)  # ten milliseconds for each kilobyte; `status` asks three times
def _meaning(text: str) -> dict[str, Any]:
    """What the text says; not to be changed, but copied first."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        found = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise Unfit(f"is not valid YAML ({str(error).splitlines()[0]})") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise Unfit("is not a table of settings")
    return found


def _section(wanted: dict[str, Any]) -> dict[str, Any]:
    found = wanted.get("plugins")
    if found is None:
        found = wanted["plugins"] = {}
    if not isinstance(found, dict):
        raise Unfit("has something else where its plugins are listed (`plugins`)")
    for key in ("enabled", "disabled"):
        if not isinstance(found.get(key, []), list | None):
            raise Unfit(f"has something else than a list at `plugins.{key}`")
    return found


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _proven(edited: str, wanted: dict[str, Any]) -> str:
    try:
        found = _meaning(edited)
    except Unfit:
        found = {}
    if found != wanted:
        raise Unfit("is written in a way that cannot be edited safely")
    return edited


# ── the text ───────────────────────────────────────────────────────────────────────────────────────


def _root(text: str) -> Any:
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).compose(text)


def _member(node: Any, name: str) -> tuple[Any, Any] | None:
    for key, value in node.value if node is not None and isinstance(node.value, list) else ():
        if getattr(key, "value", None) == name:
            return key, value
    return None


def _end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _put(text: str, at: int, new: str, until: int | None = None) -> str:
    return text[:at] + new + text[at if until is None else until :]


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    """Behind the end of the line."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _with(text: str, key: str) -> str:
    """One more entry in the list `plugins.<key>`, in front."""
    root, end = _root(text), _end(text)
    found = _member(root, "plugins")
    if found is None and getattr(root, "flow_style", False):
        return _in_front(text, root, f"plugins: {{{key}: [{NAME}]}}")
    if found is None:
        lead = "" if not text or text.endswith("\n") else end
        return text + lead + f"plugins:{end}  {key}:{end}    - {NAME}{end}"
    name, section = found
    inner = _member(section, key) if isinstance(section.value, list) else None
    if inner is not None:
        return _entry(text, *inner, end)
    if not isinstance(section.value, list) or not section.value:  # nothing, null or {}
        block = f"{end}  {key}:{end}    - {NAME}"
        return _instead(text, name, section, block)
    if section.flow_style:
        return _in_front(text, section, f"{key}: [{NAME}]")
    pad = " " * section.start_mark.column
    return _put(text, section.start_mark.index, f"{key}:{end}{pad}  - {NAME}{end}{pad}")


def _entry(text: str, name: Any, listed: Any, end: str) -> str:
    if not isinstance(listed.value, list):  # nothing or null
        pad = " " * (name.start_mark.column + 2)
        return _instead(text, name, listed, f"{end}{pad}- {NAME}")
    if listed.flow_style:
        return _in_front(text, listed, NAME)
    return _put(text, listed.start_mark.index, f"- {NAME}{end}{' ' * listed.start_mark.column}")


def _in_front(text: str, node: Any, new: str) -> str:
    """The first of what stands between brackets."""
    if not node.value:
        return _put(text, node.start_mark.index + 1, new)
    first = node.value[0]
    first = first[0] if isinstance(first, tuple) else first
    return _put(text, first.start_mark.index, new + ", ")


def _instead(text: str, name: Any, value: Any, block: str) -> str:
    """A block in the place of an empty value; a comment on that line stays where it is."""
    colon = text.index(":", name.end_mark.index) + 1
    start, stop = value.start_mark.index, value.end_mark.index
    if stop > start and start >= colon:
        text = _put(text, colon, "", stop)
    line = text.find("\n", colon)
    at = len(text) if line < 0 else line - (text[line - 1 : line] == "\r")
    return _put(text, at, block)


def _without(text: str, key: str) -> str:
    """No entry of ours in the list `plugins.<key>`."""
    while True:
        name, listed = _list_nodes(text, key)
        ours = [number for number, item in enumerate(listed.value) if item.value == NAME]
        if not ours:
            return text
        item = listed.value[ours[0]]
        start, stop = item.start_mark.index, item.end_mark.index
        if listed.flow_style:
            text = _without_flow(text, listed, ours[0])
            continue
        line = _line_start(text, start)
        if text[line:start].strip() != "-":
            raise Unfit("is written in a way that cannot be edited safely")
        if len(listed.value) == 1:
            # Hermes itself writes a list no further in than its name; an empty one must be.
            further = "  " if listed.start_mark.column <= name.start_mark.column else ""
            return _put(text, listed.start_mark.index, f"{further}[]", stop)
        text = _put(text, line, "", _line_end(text, stop))


def _without_flow(text: str, listed: Any, number: int) -> str:
    items = listed.value
    if number + 1 < len(items):
        return _put(text, items[number].start_mark.index, "", items[number + 1].start_mark.index)
    start = items[number - 1].end_mark.index if number else items[number].start_mark.index
    return _put(text, start, "", items[number].end_mark.index)


def _list_nodes(text: str, key: str) -> tuple[Any, Any]:
    """The name of the list, and the list."""
    section = _member(_root(text), "plugins")
    found = _member(section[1], key) if section else None
    if found is None:
        raise Unfit("is written in a way that cannot be edited safely")
    return found


def _without_key(text: str, key: str) -> str:
    """The list is empty and was not there before us."""
    section = _member(_root(text), "plugins")
    found = _member(section[1], key) if section else None
    if section is None or found is None:
        raise Unfit("is written in a way that cannot be edited safely")
    return _without_pair(text, section[1], *found)


def _without_pair(text: str, table: Any, name: Any, value: Any) -> str:
    """No such key in a table; a table that is empty then is written as one."""
    start = name.start_mark.index
    if table.flow_style:
        numbers = [number for number, pair in enumerate(table.value) if pair[0] is name]
        following, leading = table.value[numbers[0] + 1 :], table.value[: numbers[0]]
        if following:
            return _put(text, start, "", following[0][0].start_mark.index)
        return _put(text, leading[-1][1].end_mark.index if leading else start, "", value.end_mark.index)
    if len(table.value) == 1:
        return _put(text, start, "{}", value.end_mark.index)
    return _put(text, _line_start(text, start), "", _line_end(text, value.end_mark.index))


def _without_section(text: str) -> str:
    root = _root(text)
    found = _member(root, "plugins")
    if found is None:
        return text
    name, value = found
    if root.flow_style:
        return _without_pair(text, root, name, value)
    last = value
    while isinstance(last.value, list) and last.value:
        last = last.value[-1][1] if isinstance(last.value[-1], tuple) else last.value[-1]
    return _put(text, _line_start(text, name.start_mark.index), "", _line_end(text, last.end_mark.index))
