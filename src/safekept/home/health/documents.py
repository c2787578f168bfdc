"""Documents that the census counts, item by item: jobs, pairings, memories, sections of the settings.

Counts alone miss a job whose prompt was replaced by its name, or one job lost while another came. Items
are known by their id, name or key, else by their number. A document that cannot be understood now, and
could before, is a finding; one that could not before says nothing.
"""

from __future__ import annotations

import json
import re
from typing import Any

from safekept.core.agents import compose, members
from safekept.core.files.small import read_start
from safekept.core.records import dataclass

from ..census import LARGEST, count_document, is_blank
from ..layout.rules import Count
from ..scan.content import amount
from .loss_rules import Examination, HomeLoss, Shrinkage, counted, of_them, some

_DOCUMENTS = ("sections", "json", "yaml", "yaml-sections")
#: Files of `NAME=value` lines, which no census counts: what they set.
_VARIABLES = ".env"
KEYS = Count("keys", (), "variables")
_VARIABLE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(\S)", re.MULTILINE)
#: Items whose names tell no secrets and help to see what is gone.
_NAMED = ("yaml-sections", "variables")
#: A text that lost this part of itself was cut short, whatever the number of its entries.
_CUT = 0.5
_CUT_BYTES = 200


@dataclass(frozen=True, slots=True)
class Items:
    """What a document holds, by what each is known by."""

    by_name: dict[str, Any]
    known: bool  # by an id, a name or a key of its own; False: by its content

    def __len__(self) -> int:
        return len(self.by_name)


def look_at_documents(examination: Examination) -> None:
    since = examination.since
    for path in sorted({*since.changed, *since.gone} - since.links):
        if path in examination.reported:
            continue
        counts = [
            count
            for count, matcher in examination.layout.counted
            if count.kind in _DOCUMENTS and matcher.covers(path)
        ]
        if path.endswith(_VARIABLES) and examination.layout.secret(path):
            counts.append(KEYS)
        if counts:
            # Sections of the settings tell more than their number.
            _look(examination, path, sorted(counts, key=lambda count: count.kind == "yaml"))


def _look(examination: Examination, path: str, counts: list[Count]) -> None:
    before = examination.stored.data(path)
    if before is None:
        examination.notes.append(f"{path} could not be compared: the snapshot's copy of it cannot be read")
        return
    gone = path in examination.since.gone
    after = b"" if gone else _live(examination, path)
    if after is None or after == before:
        return
    losses = tuple(fall for count in counts for fall in _falls(examination, path, count, before, after))
    if gone:
        losses += examination.file_gone(path)
    elif is_blank(after) and not is_blank(before):
        losses += examination.file_emptied(path)
    for count in counts:
        # Sections of the settings, then their number: one finding for one file.
        if path not in examination.reported:
            _compare(examination, path, count, before, after, gone, losses)
    if path not in examination.reported and is_blank(after) and not is_blank(before):
        how = "is gone" if gone else _empty_words(after)
        examination.found(HomeLoss("emptied", path, f"{path} {how}", restore_paths=(path,), losses=losses))


def _live(examination: Examination, path: str) -> bytes | None:
    try:
        return read_start(examination.recorded.full(path), LARGEST)
    except FileNotFoundError:
        return b""
    except OSError as error:
        text = f"{path} cannot be read any more: {error.strerror or error}"
        examination.found(HomeLoss("closed", path, text, restore_paths=(path,)))
        return None


def _falls(
    examination: Examination, path: str, count: Count, before: bytes, after: bytes
) -> tuple[Shrinkage, ...]:
    """What the census will say of it."""
    if count is KEYS:
        return ()
    had, has = count_document(before, count), 0 if is_blank(after) else count_document(after, count)
    return () if had is None or has is None else examination.shrinkage(path, count.name, had, has)


def _compare(
    examination: Examination,
    path: str,
    count: Count,
    before: bytes,
    after: bytes,
    gone: bool,
    losses: tuple[Shrinkage, ...],
) -> None:
    if count.kind == "yaml":
        _fewer(examination, path, count, losses)
        return
    old = items(before, count)
    if not old:
        return
    empty = is_blank(after)
    new = Items({}, True) if empty else items(after, count)
    if new is None:
        text = f"{path} is not what it was and cannot be understood; it held {counted(count.name, len(old))}"
        examination.found(HomeLoss("not-understood", path, text, restore_paths=(path,)))
        return
    missing = [name for name in old.by_name if name not in new.by_name]
    lost = len(missing) if old.known and new.known else max(0, len(old) - len(new))
    if lost:
        why = f"{path} {_empty_words(after)}: " if empty else f"{path}: "
        names = _names(count, old, missing)
        text = f"{why}{of_them(lost, len(old), count.name)}" + (f": {names}" if names and not empty else "")
        if gone:  # there may be more of them in other files
            text = f"{path} is gone, with {counted(count.name, len(old))}"
        beyond_doubt = count.restore and not len(new)
        examination.found(
            HomeLoss(
                "emptied" if not len(new) else "items-gone", path, text, beyond_doubt, (path,), losses=losses
            )
        )
    elif count.kind == "sections" and _cut_short(before, after):
        text = f"{path} was cut short: {amount(len(before))} → {amount(len(after))}"
        examination.found(HomeLoss("cut-short", path, text, restore_paths=(path,)))
    elif changed := _changed(count, old, new):
        text = f"{path}: {changed}"
        examination.found(HomeLoss("changed", path, text, restore_paths=(path,)))


def _fewer(examination: Examination, path: str, count: Count, losses: tuple[Shrinkage, ...]) -> None:
    """Single values come and go with every release; many at once do not."""
    fall = next((one for one in losses if one.name == count.name), None)
    if fall is not None and fall.alarming:
        noun = count.name.replace("_", " ")
        text = f"{path} has fewer {noun} than before: {fall.before:,} → {fall.after:,}"
        examination.found(HomeLoss("fewer", path, text, restore_paths=(path,), losses=losses))


def items(data: bytes, count: Count) -> Items | None:
    """What a document holds; None where it is not understood."""
    try:
        text = data.decode("utf-8-sig")
        if count.kind == "sections":
            parts = text.replace("\r\n", "\n").split(count.delimiter)
            return Items({f"{n} {part.strip()}": part for n, part in enumerate(parts) if part.strip()}, False)
        if count.kind == "json":
            return _json_items(json.loads(text), count.key)
        if count.kind == "variables":
            return Items({found[1]: None for found in _VARIABLE.finditer(text)}, True)
        top = members(root) if (root := compose(text)) is not None else {}
        return None if top is None else Items(dict.fromkeys(top), True)
    except (ValueError, RecursionError):
        return None


def _json_items(document: Any, key: str) -> Items | None:
    if key and isinstance(document, dict):
        document = document.get(key)
    if isinstance(document, dict):
        return Items({str(name): value for name, value in document.items()}, True)
    if not isinstance(document, list):
        return None
    for identity in ("id", "name"):
        names = [str(item[identity]) for item in document if isinstance(item, dict) and item.get(identity)]
        if len(names) == len(document) == len(set(names)):
            return Items(dict(zip(names, document, strict=True)), True)
    return Items({f"{n} {json.dumps(item, sort_keys=True)}": item for n, item in enumerate(document)}, False)


def _changed(count: Count, old: Items, new: Items) -> str:
    """`the prompt of 1 of 4 cron jobs was changed: evening letter (2,618 → 11 characters)`."""
    for field in count.watch:
        found = []
        for name, before in old.by_name.items():
            after = new.by_name.get(name)
            if not isinstance(before, dict) or not isinstance(after, dict):
                continue
            if before.get(field) and before.get(field) != after.get(field):
                lengths = [len(str(item.get(field) or "")) for item in (before, after)]
                called = _called(name, before)
                found.append(f"{called} ({lengths[0]:,} → {lengths[1]:,} characters)")
        if found:
            of = f"{len(found):,} of {counted(count.name, len(old))}"
            return f"the {field} of {of} was changed: {some(found)}"
    return ""


def _names(count: Count, old: Items, missing: list[str]) -> str:
    if not old.known or not (count.watch or count.restore or count.kind in _NAMED):
        return ""
    return some([_called(name, old.by_name[name]) for name in missing])


def _called(name: str, item: Any) -> str:
    shown = str(item.get("name") or name) if isinstance(item, dict) else name
    shown = " ".join(shown.split())
    return shown if len(shown) <= 40 else shown[:39] + "…"


def _cut_short(before: bytes, after: bytes) -> bool:
    return len(after) < _CUT * len(before) and len(before) - len(after) >= _CUT_BYTES


def _empty_words(data: bytes) -> str:
    return f"is {amount(len(data))} of zero bytes" if data.strip(b" \r\n\t") else "is empty"
