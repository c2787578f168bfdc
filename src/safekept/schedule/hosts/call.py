"""What the host is asked to run, and when.

The host wakes us at the set times and once in every hour besides. A look costs nothing where nothing is
due, and it is what catches up after sleep, after a failure and after a night on battery.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.owner.nightly import nightly_name
from safekept.core.records import dataclass

from ..tasks import Cadence
from .stores import Stores

#: The first words of every file of ours, by which a file is known to be ours.
MARK = "Written by `safekept schedule install`; `safekept schedule remove` takes it away"
#: What a host is asked for in every hour, for a reader of its file.
HOURLY = "Once in every hour: catches up after sleep or a failure, and does nothing where nothing is due"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class NoSchedule(SafekeptError):
    code = "schedule-odd-name"

    @classmethod
    def odd_name(cls, text: str) -> NoSchedule:
        """No host can be given such a name in a file of lines."""
        return cls(
            f"No schedule can be written: `{text}` holds a line break or another control character",
            kept="Nothing was installed or changed",
            next_steps=(
                "Give that directory another name, or set `HOME` to a way to it without such characters",
                "Or run `safekept schedule run` from a scheduler of your own",
            ),
            name=text,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One call, for one user. `user` is set where the machine's own timer runs it: as root for that user,
    with root's stores; or, with `as_user`, as that user, as if it were a timer of the user's own.
    """

    command: tuple[str, ...]  # the program by its absolute path, and its words
    cadence: Cadence = field(default_factory=Cadence)
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    home: str = ""  # what is looked after, for the description
    time_limit: float = 4 * 3600.0  # seconds; 0: none
    mails: bool = False  # notifications go out by sendmail, which may have to change its group
    logs: str = ""  # a directory for what the program says, where the host keeps no log
    as_user: bool = False
    mark: str = MARK
    stores: Stores | None = None  # for which it works; None: root's, whose files are named for the user

    def __post_init__(self) -> None:
        if self.user and not _NAME.fullmatch(self.user):
            raise ValueError(f"not a user name that can be part of a file name: {self.user!r}")
        data = self.stores.data if self.stores else ""
        for text in (*self.command, *self.environment, *self.environment.values(), self.home, data):
            if any(ord(sign) < 32 or ord(sign) == 127 for sign in text):
                raise NoSchedule.odd_name(text)

    @property
    def name(self) -> str:
        if self.as_user:
            return nightly_name(self.user)
        if self.user:
            return f"safekept-{self.user}"
        return f"safekept-{self.id}" if self.id else "safekept"

    @property
    def id(self) -> str:
        """What sets its names apart from those of the user's other stores; "" for the usual ones."""
        return self.stores.id if self.stores and not self.stores.usual and not self.user else ""

    @property
    def times(self) -> tuple[tuple[int, int], ...]:
        return self.cadence.times

    @property
    def minute_of_run(self) -> int:
        """In which minute of an hour it is looked: another one on every machine, the same one every day."""
        text = "\0".join((self.name, self.home, *self.command)).encode("utf-8", "surrogateescape")
        return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") % 60
