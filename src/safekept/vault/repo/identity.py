"""Who works on a vault: written into keys, locks and snapshots."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    hostname: str
    username: str
    uid: int
    gid: int

    @classmethod
    def of_this_process(cls) -> Identity:
        uid = os.getuid()
        try:
            username = pwd.getpwuid(uid).pw_name
        except KeyError:
            username = ""
        return cls(os.uname().nodename, username, uid, os.getgid())
