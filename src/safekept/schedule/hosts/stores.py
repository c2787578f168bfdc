"""Whose schedule it is: one user may work with several HOMEs, each with settings and stores of its own.

A crontab, and the names that systemd and launchd know, are one for each user. So what is put there says for
which stores it works, and only that is ever replaced, looked at or taken away.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from safekept.core.records import dataclass

_ABOVE = (("XDG_DATA_HOME", ".local/share"), ("XDG_CONFIG_HOME", ".config"))


@dataclass(frozen=True, slots=True)
class Stores:
    """The directories of data and of settings, and the home directory that the machine knows for the user."""

    data: str
    settings: str
    user_home: str

    @property
    def id(self) -> str:
        """Eight signs that no other stores of this user have."""
        text = f"{os.path.realpath(self.data)}\0{os.path.realpath(self.settings)}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]

    @property
    def usual(self) -> bool:
        """Whether they lie where a user has them who set nothing: these have the plain names."""
        return self.meant_by({})

    def meant_by(self, environment: Mapping[str, str]) -> bool:
        """Whether a call with these variables, and nothing else that is known, works for these stores."""
        home = environment.get("HOME") or self.user_home
        wanted = (self.data, self.settings)
        for (name, below), place in zip(_ABOVE, wanted, strict=True):
            above = environment.get(name, "")
            if not os.path.isabs(above):
                if not os.path.isabs(home):
                    return False
                above = os.path.join(home, below)
            if os.path.realpath(os.path.join(above, "safekept")) != os.path.realpath(place):
                return False
        return not environment.get("SAFEKEPT_SYSTEM_USER")


def data_meant_by(environment: Mapping[str, str], user_home: str) -> str:
    """The directory of data for which a call with these variables works, by the home the machine knows."""
    above = environment.get("XDG_DATA_HOME", "")
    if not os.path.isabs(above):
        above = os.path.join(environment.get("HOME") or user_home, ".local/share")
    return os.path.join(above, "safekept")
