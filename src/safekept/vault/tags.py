"""What a snapshot's tags and marks say: its kind, its label, how sound it is, pinned, proven or forgotten.

Tags are the one place for facts of its making that survives every tool: restic shows them, filters by them
and keeps them when it rewrites a snapshot. A comma would split a tag in restic's hands, so texts have it
percent-encoded. What is said later is a mark (marks.py), and goes before a tag of its name.
What cannot be understood is read in the way that keeps more: a pin with a broken date is a pin for ever, a
broken time of forgetting forgets nothing.
"""

from __future__ import annotations

import datetime
import re
import time
import unicodedata

from safekept.core.entries import lacking_text
from safekept.core.errors import SafekeptError
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass

from .format.go_text import format_time, parse_time
from .format.snapshot import Snapshot

QUICK = "quick"
MANUAL = "manual"
SCHEDULED = "scheduled"
PRE_UPDATE = "pre-update"
PRE_MIGRATION = "pre-migration"
PRE_IMPORT = "pre-import"
PRE_RESTORE = "pre-restore"
#: A home point: some files of a home, stored before an agent changes them.
PRE_CHANGE = "pre-change"
ADOPTED = "adopted"
KINDS = (QUICK, MANUAL, SCHEDULED, PRE_UPDATE, PRE_MIGRATION, PRE_IMPORT, PRE_RESTORE, PRE_CHANGE, ADOPTED)
#: The kind of what restic or rustic made.
OTHER = "other"

INCOMPLETE = "incomplete"
#: It holds a part of the home only, because its run was asked for a part.
PARTIAL = "partial"
#: Kinds that hold a part of a home by what they are.
PARTS = frozenset({QUICK, PRE_CHANGE, ADOPTED})
PIN = "pin"
FORGOTTEN = "forgotten"
#: Taken automatically at the end of a session.
AUTOMATIC = "automatic"
PROVEN = "proven"

_KIND = re.compile(r"[a-z][a-z0-9-]*")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_SECOND = 1_000_000_000
#: A day is over when it is over everywhere: twelve hours after it ended in Greenwich.
_EVERYWHERE = 12 * 3600


def kind_of(snapshot: Snapshot) -> str:
    """`quick`, `manual`, …; a kind of a later safekept as it is; `other` where no tag says."""
    kind = _value(snapshot, "kind")
    return kind if _KIND.fullmatch(kind) else OTHER


def label_of(snapshot: Snapshot) -> str:
    return _decode(_value(snapshot, "label"))


def layout_of(snapshot: Snapshot) -> str:
    return _value(snapshot, "layout")


def state_of(snapshot: Snapshot) -> str:
    """`sound`, `unverified` or `damaged`; empty where no tag says."""
    return after_a_drill(snapshot, _value(snapshot, "state"))


def after_a_drill(snapshot: Snapshot, state: str) -> str:
    """A drill checks every database in full, so one that was unchecked is sound if it was proven."""
    return "sound" if state == "unverified" and proven_at(snapshot) is not None else state


def is_incomplete(snapshot: Snapshot) -> bool:
    return INCOMPLETE in snapshot.tags


def why_incomplete(snapshot: Snapshot) -> str:
    """`state.db is damaged, and 1 more`; empty where it is complete, or nothing says why it is not."""
    if not is_incomplete(snapshot):
        return ""
    own = snapshot.extra.get("safekept")
    own = own if isinstance(own, dict) else {}
    match own.get("lacks"), own.get("databases"):
        case {"path": str(path), "outcome": str(outcome), "count": int(count)}, _:
            return lacking_text(path, outcome, count)
        case _, dict(states):  # an older safekept said no more than this
            damaged = sorted(str(path) for path, state in states.items() if state == "damaged")
            return lacking_text(damaged[0], "damaged", len(damaged)) if damaged else ""
    return ""


def is_partial(snapshot: Snapshot) -> bool:
    """Whether it holds less than the settings select: asked for so, or by its kind. Not: incomplete."""
    return PARTIAL in snapshot.tags or kind_of(snapshot) in PARTS


def pinned_until(snapshot: Snapshot) -> str | None:
    """The last day of its pin (`YYYY-MM-DD`), empty for a pin without end, None for no pin at all."""
    days = _said(snapshot, PIN)
    if not days:
        return None
    return "" if any(_end_of(day) is None for day in days) else max(days)


def is_pinned(snapshot: Snapshot, now_ns: int) -> bool:
    """Whether a pin holds at that time; a pin with a day holds until that day is over everywhere."""
    day = pinned_until(snapshot)
    if day is None:
        return False
    end = _end_of(day)
    return end is None or now_ns < end


def forgotten_at(snapshot: Snapshot) -> int | None:
    """When it was forgotten, in nanoseconds since 1970; None where it is not."""
    return _latest(snapshot, FORGOTTEN)


def proven_at(snapshot: Snapshot) -> int | None:
    """When a drill last restored all of it and found nothing wrong; None where none did."""
    return _latest(snapshot, PROVEN)


def _latest(snapshot: Snapshot, name: str) -> int | None:
    found = []
    for text in _said(snapshot, name):
        try:
            found.append(parse_time(text)[0])
        except ValueError:
            continue
    return max(found, default=None)


def _said(snapshot: Snapshot, name: str) -> list[str]:
    """The values of a mark: what a record beside the snapshot says, else what its tags do."""
    if name in snapshot.marks:
        value = snapshot.marks[name]
        return [] if value is None else [value]
    return [tag[len(name) + 1 :] for tag in snapshot.tags if tag == name or tag.startswith(name + ":")]


def kind_tag(kind: str) -> str:
    return f"kind:{kind}"


def label_tag(label: str) -> str:
    """A label as a tag; control characters, which no list could show, become spaces."""
    text = "".join(" " if ord(sign) < 32 or ord(sign) == 127 else sign for sign in label)
    text = text.encode("utf-8", "replace").decode()
    return "label:" + text.replace("%", "%25").replace(",", "%2C")


def state_tag(state: str) -> str:
    return f"state:{state}"


def pin_tag(until: str = "") -> str:
    """`until` is the last day, `YYYY-MM-DD`; empty: for ever. ValueError where it is no day."""
    if not until:
        return PIN
    if _end_of(until) is None:
        raise ValueError(f"not a day: {until!r}")
    return f"{PIN}:{until}"


def moment_text(now_ns: int) -> str:
    """A time as marks have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ns // _SECOND))


def _value(snapshot: Snapshot, name: str) -> str:
    start = name + ":"
    return next((tag[len(start) :] for tag in snapshot.tags if tag.startswith(start)), "")


def _decode(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def _end_of(day: str) -> int | None:
    """When a day is over everywhere; None where the text is no day."""
    try:
        date = datetime.date.fromisoformat(day)
    except ValueError:
        return None
    days = date.toordinal() - datetime.date(1970, 1, 1).toordinal() + 1
    return (days * 86400 + _EVERYWHERE) * _SECOND


# A home that was rebuilt under another path or on another machine goes on there. Each snapshot of it says
# where it was before and until when, so that what was kept of it then is found as its own past. The time
# keeps two lives apart: what the old place stored after it is of another home.

EARLIER = "earlier"


@dataclass(frozen=True, slots=True)
class EarlierHome:
    """Where a home was before."""

    host: str
    home: str  # as a snapshot file has it
    until_ns: int  # when the snapshot was taken that it was rebuilt from

    @property
    def tag(self) -> str:
        place = f"{self.host} {self.home}".replace("%", "%25").replace(",", "%2C")
        return f"{EARLIER}:{format_time(self.until_ns, 0)} {place}"

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is of that life."""
        of_it = snapshot.paths[:1] == (self.home,) and snapshot.hostname == self.host
        return of_it and snapshot.time_ns <= self.until_ns


def earlier_homes(snapshot: Snapshot) -> list[EarlierHome]:
    """Where the home of a snapshot was before; what cannot be understood is left out."""
    start, found = EARLIER + ":", []
    for tag in snapshot.tags:
        until, host, home = [*tag.removeprefix(start).split(" ", 2), "", ""][:3]
        if tag.startswith(start) and home:
            try:
                found.append(EarlierHome(_decode(host), _decode(home), parse_time(until)[0]))
            except ValueError:
                continue
    return found


# What a snapshot may be called: one line that a list can show.

LONGEST = 200
#: Control characters, stray bytes, and what breaks a line or a paragraph.
_UNSHOWABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})


class BadLabel(SafekeptError):
    code, exit_code = "bad-label", 2


def check_label(label: str) -> None:
    """Raise BadLabel for a label that no list could show."""
    if len(label) > LONGEST:
        raise _bad(f"A label has at most {LONGEST} characters; this one has {len(label):,}")
    if any(unicodedata.category(sign) in _UNSHOWABLE for sign in label):
        raise _bad("A label is one line without control characters")


def tidy_label(label: str) -> str:
    """The same text as a label: for those that are made of other names."""
    shown = "".join(" " if unicodedata.category(sign) in _UNSHOWABLE else sign for sign in label)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _bad(what: str) -> BadLabel:
    return BadLabel(
        what,
        kept="No snapshot was taken, and nothing was changed",
        next_steps=(NextStep("snapshot", ("--label", "TEXT"), before="Choose a shorter one, on one line:"),),
    )
