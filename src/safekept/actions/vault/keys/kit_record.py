"""What is known of the kits of a vault: the one that was written here, and the one that is stored elsewhere.

A kit is paper: it does not change when the destinations or the keys do. So it is remembered which places and
which key each of them names; whether a kit is still true is asked here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping

from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.files.small import read_document, write_document
from safekept.core.journal import Record, new_id
from safekept.core.next_step import NextStep
from safekept.core.objects.address import is_address
from safekept.core.records import dataclass
from safekept.vault.repo import KeyFile, Repository

from ...base.context import UserContext
from ...base.operations.stores import KitAcknowledgeFacts, VaultKitFacts
from ...base.record import record
from ...offsite.destination import VAULT


class NoKitYet(SafekeptError):
    code = "no-kit-yet"


class KitOutdated(SafekeptError):
    code = "kit-outdated"


@dataclass(frozen=True, slots=True)
class KitRecord:
    """One kit, by what it names."""

    time: float = 0.0  # when it was written, or said to be stored
    files: tuple[str, ...] = ()
    places: tuple[str, ...] | None = None  # the copies, by their addresses; None: unknown
    key: str = ""  # the id of the key on it; "": none, or unknown

    def as_dict(self) -> dict[str, object]:
        places = None if self.places is None else list(self.places)
        return {"time": self.time, "files": list(self.files), "places": places, "key": self.key}


@dataclass(frozen=True, slots=True)
class KitStatus:
    """How far the kits of a vault can be counted on."""

    stored: float = 0.0  # when a person confirmed that one is kept elsewhere; 0: never
    files: tuple[str, ...] = ()  # those that lie where they were written
    outdated: str = ""  # why the one that counts does not help any more; empty: it does
    beyond: str = ""  # what it names that is no place any more, beside those that are; it still helps
    here_current: bool = False  # one of the two, and the one that was written here would
    rewritten: bool = False  # just now
    stored_opens: bool = False  # the key on the stored one is a key of the vault; False: not, or unknown
    gone: bool = False  # nothing lies where the one that was written here was put


def places_now(context: UserContext) -> dict[str, str]:
    """Every place that a kit must name, by its address, with what a person calls it."""
    found = {one.url: one.name for one in context.choices.destinations if VAULT in one.takes}
    vault = context.places.vault
    return {**found, vault: vault} if is_address(vault) else found


def kit_status(context: UserContext, vault: str, keys: Iterable[str], written: KitRecord | None) -> KitStatus:
    """Of the vault with this id, which these keys open. OSError where the memory of it cannot be read."""
    stored = stored_kit(context, vault)
    files = tuple(path for path in written.files if os.path.exists(path)) if written else ()
    opening = set(keys)
    judged, whose = written, "your kit"
    if stored is not None and stored.places is not None:
        judged, whose = stored, "the kit that you stored elsewhere"
    gap = _gap(context, judged, opening)
    beyond = "" if gap else _beyond(context, judged)
    better = bool(files) and not _gap(context, written, opening) and not _beyond(context, written)
    return KitStatus(
        stored.time if stored else 0.0,
        files,
        f"{whose} {gap}" if gap else "",
        f"{whose} {beyond}" if beyond else "",
        bool(gap or beyond) and judged is not written and better,
        stored_opens=bool(stored and stored.key in opening),
        gone=bool(written and written.files and not files),
    )


def _gap(context: UserContext, kit: KitRecord | None, keys: set[str]) -> str:
    """Why it does not help any more, as the end of a sentence; empty where it does."""
    if kit is None:
        return ""
    if kit.key and keys and kit.key not in keys:
        return "is of no use: its key opens the vault no more"
    now = places_now(context)
    if kit.places is None:
        return "is not where it was written: which places it names is not known" if now else ""
    if missing := [name for url, name in now.items() if url not in kit.places]:
        return f"does not name {', '.join(missing)}"
    if kit.places and not now:
        return f"names {', '.join(kit.places)}, which is no destination any more"
    return ""


def _beyond(context: UserContext, kit: KitRecord | None) -> str:
    """What it names beside the places of now. A rebuild looks at each of them: it is a detour, no loss."""
    now = places_now(context)
    gone = [url for url in kit.places or () if url not in now] if kit else []
    return f"also names {', '.join(gone)}, which is no destination any more" if now and gone else ""


def written_kit(
    context: UserContext, vault: str, line: Callable[[UserContext], Record | None] | None = None
) -> KitRecord | None:
    """The kit that was last written on this machine. `line` gives the journal's word on it."""
    found = _read(context, "written").get(vault)
    if isinstance(found, Mapping):
        return _parsed(found, "time")
    record = (line or last_line)(context)
    return _of_before(record, vault) if record is not None else None


def last_line(context: UserContext) -> Record | None:
    """What the journal knows of the last kit."""
    lines = (one for one in context.journal.read() if one.verb == VaultKitFacts.verb and one.state == "done")
    ours = [one for one in lines if VaultKitFacts.read(one).vault == context.places.vault]
    return ours[-1] if ours else None


def of_page(places: Iterable[str], vault: str, when: float = 0.0, files: Iterable[str] = ()) -> KitRecord:
    """A kit by the places that stand on it, for the vault with this id."""
    named = (place.removesuffix(f"/{vault[:16]}") for place in places if is_address(place))
    return KitRecord(when, tuple(files), tuple(named))


def stored_kit(context: UserContext, vault: str) -> KitRecord | None:
    """The kit that a person keeps elsewhere; None where that was not confirmed."""
    found = _read(context, "vaults").get(vault)
    return _parsed(found if isinstance(found, Mapping) else {}, "acknowledged") if found else None


def note_written(context: UserContext, vault: str, kit: KitRecord) -> None:
    _write(context, "written", vault, kit.as_dict())


def note_stored(context: UserContext, vault: str, kit: KitRecord | None) -> None:
    """A person keeps this kit elsewhere, from now on."""
    known = kit.as_dict() if kit else {}
    _write(context, "vaults", vault, {**known, "acknowledged": time.time()})


def acknowledge_kit(
    context: UserContext,
    repository: Repository,
    listener: Listener = silent,
    *,
    seen: KitRecord | None = None,
) -> None:
    """Note that a person keeps the kit of this vault elsewhere. NoKitYet, KitOutdated.

    `seen`: the one that was just used, so there is one.
    """
    vault = repository.id
    written = seen or written_kit(context, vault)  # OSError where it cannot be read: nothing may be forgotten
    if written is None:
        raise NoKitYet(
            f"No kit of the vault at `{context.places.vault}` was written on this machine",
            kept="Nothing was sent or changed",
            next_steps=(
                NextStep("vault kit", before="Write it:"),
                "Keep it elsewhere, then run this command again",
            ),
        )
    gap = "" if seen else _gap(context, written, key_ids(repository))
    if gap:
        raise KitOutdated(
            f"Your kit {gap}",
            kept="Nothing was sent or changed; the kit is as it was",
            next_steps=(
                NextStep("vault kit", before="Write it again:"),
                "Keep that one elsewhere, then run this command again",
            ),
        )
    note_stored(context, vault, written)
    record(
        context, KitAcknowledgeFacts(vault=context.places.vault, id=vault).line(new_id(), "done"), listener
    )


def key_ids(repository: Repository) -> set[str]:
    return {key.id for key in repository.list_keys() if isinstance(key, KeyFile)}


def _of_before(line: Record, vault: str) -> KitRecord:
    """A kit that an earlier safekept wrote: the page itself says what it names."""
    from .kit_reading import read_kit

    files = VaultKitFacts.read(line).written or ()
    page = next((kit for path in files if (kit := read_kit(path))), None)
    if page is None:
        return KitRecord(line.time, tuple(files))
    return of_page(page.places, vault, line.time, files)


def _parsed(found: Mapping[str, object], field_name: str) -> KitRecord:
    places, files, when = found.get("places"), found.get("files"), found.get(field_name)
    return KitRecord(
        float(when) if isinstance(when, int | float) else 0.0,
        tuple(map(str, files)) if isinstance(files, list) else (),
        tuple(map(str, places)) if isinstance(places, list) else None,
        str(found.get("key") or ""),
    )


def _read(context: UserContext, part: str) -> dict[str, object]:
    return read_document(_file(context), lambda found: dict(found.get(part) or {}), {}, strict=True)


def _write(context: UserContext, part: str, vault: str, facts: dict[str, object]) -> None:
    document = {name: _read(context, name) for name in ("vaults", "written")}
    document[part] = {**document[part], vault: facts}
    write_document(_file(context), {"version": 1, **document})


def _file(context: UserContext) -> str:
    return os.path.join(context.places.data_directory, "kits.json")


# The name of a new kit: never that of a kit which this machine did not write.
#
# After the loss of a machine the kit is laid into the home directory of the new one, to rebuild from it. It
# may name places that this machine does not know, and it may be the only one: the new kit goes beside it.


SUFFIXES = (".txt", ".html")  # to read, and the same to print


def usual_stem(context: UserContext, directory: str, vault: str, is_kit: Callable[[str], bool]) -> str:
    """Where the kit of the vault with this id goes in a directory, without a suffix."""
    usual = os.path.join(directory, f"safekept-kit-{vault[:8]}")
    stem, number = usual, 1
    own: frozenset[str] | None = None
    while kits := [path for path in _pages(stem) if is_kit(path)]:
        own = _written_here(context, vault) if own is None else own
        if own.issuperset(kits):
            break
        number += 1
        stem = f"{usual}-{number}"
    return stem


def kept_beside(text: str) -> str:
    """The kit that a new one at `text` did not replace; empty where none was in its way."""
    found = re.fullmatch(r"(.*/safekept-kit-[0-9a-f]{8})-\d+\.txt", text)
    return next(filter(os.path.exists, _pages(found[1])), "") if found else ""


def _pages(stem: str) -> list[str]:
    return [stem + suffix for suffix in SUFFIXES]


def _written_here(context: UserContext, vault: str) -> frozenset[str]:
    """Every kit that this machine has ever written."""
    last = written_kit(context, vault)
    lines = (one for one in context.journal.read() if one.verb == VaultKitFacts.verb and one.state == "done")
    before = (path for one in lines for path in VaultKitFacts.read(one).written or ())
    return frozenset((*(last.files if last else ()), *before))
