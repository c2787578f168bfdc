"""What each host last asked for and what came of it: how `status` knows whether a connected host protects.

One small file for each host, replaced at every call and never synced: the checkpoints themselves are what
must not be lost. Who records a call has the directory to itself meanwhile, as the plugin inside Hermes has:
else a call that was kept would undo the word of one beside it that was not.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import field, replace

from safekept.core.files import private_directory
from safekept.core.files.small import read_fields, write_document
from safekept.core.locks import in_turn
from safekept.core.records import dataclass

from ..base.context import UserContext

#: A host's name is ours to choose; one that cannot be a file's name is none of ours.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}\Z")
#: A file in the same place that is about no single host.
_NOT_HOSTS = frozenset({"connections"})
_LONGEST, _MOST = 500, 20


@dataclass(frozen=True, slots=True)
class HostCalls:
    """What is known of one host. Times are seconds since 1970; 0: never."""

    host: str
    last_call: float = 0.0
    last_checkpoint: float = 0.0  # the last call before which something was kept
    last_failure: dict[str, object] = field(default_factory=dict)  # time, what
    calls: int = 0
    unkept: str = ""  # why nothing was kept the last time that a shell command ran where nothing could be
    unkept_at: float = 0.0
    not_kept: tuple[str, ...] = ()  # hidden, and in no point, when it last ran a shell command

    @property
    def failing(self) -> bool:
        """Whether the last thing that this host asked for was not done."""
        when = self.last_failure.get("time")
        return isinstance(when, int | float) and when >= self.last_checkpoint

    def as_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "last_call": self.last_call,
            "last_checkpoint": self.last_checkpoint,
            "last_failure": dict(self.last_failure),
            "calls": self.calls,
            "unkept": self.unkept,
            "unkept_at": self.unkept_at,
            "not_kept": list(self.not_kept),
        }


def integrations_directory(data_directory: str) -> str:
    """Where everything about hosts is kept."""
    return os.path.join(data_directory, "integrations")


def record_host_call(
    data_directory: str,
    host: str,
    *,
    kept: bool,
    failure: str = "",
    unkept: str = "",
    not_kept: tuple[str, ...] | None = None,
    when: float = 0.0,
    called: bool = True,
) -> None:
    """Remember a call. `kept`: something is in a point because of it. Nothing is raised.

    Not `called`: the host did not call now; this is what came of work that an earlier call began.

    `unkept` says why nothing could be kept before a shell command, which may have changed anything.
    `not_kept` names hidden files that were not kept before one; None: the call is about no shell command.
    """
    if not _NAME.match(host) or host in _NOT_HOSTS:
        return
    now = when or time.time()
    with contextlib.suppress(OSError):
        private_directory(integrations_directory(data_directory))
        with in_turn(integrations_directory(data_directory)):
            before = _read(data_directory, host)
            after = _after(before, now, kept, failure, unkept)
            if not called:
                after = replace(after, last_call=before.last_call, calls=before.calls)
            if not_kept is not None:
                after = replace(after, not_kept=tuple(text[:_LONGEST] for text in not_kept[:_MOST]))
            write_document(_path(data_directory, host), after.as_dict(), durable=False)


def _after(before: HostCalls, now: float, kept: bool, failure: str, unkept: str) -> HostCalls:
    return HostCalls(
        before.host,
        last_call=max(now, before.last_call),
        # A clock that was set back must not make a success of yesterday outlast a failure of now.
        last_checkpoint=now if kept else min(now, before.last_checkpoint),
        last_failure={"time": now, "what": failure[:_LONGEST]} if failure else before.last_failure,
        calls=before.calls + 1,
        unkept=unkept[:_LONGEST] or before.unkept,
        unkept_at=now if unkept else before.unkept_at,
        not_kept=before.not_kept,
    )


def read_host_calls(context: UserContext) -> tuple[HostCalls, ...]:
    """Every host that ever called, by name."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(integrations_directory(context.places.data_directory))
    hosts = sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))
    found = [
        _read(context.places.data_directory, host)
        for host in hosts
        if _NAME.match(host) and host not in _NOT_HOSTS
    ]
    return tuple(one for one in found if one.calls)


def _path(data_directory: str, host: str) -> str:
    return os.path.join(integrations_directory(data_directory), f"{host}.json")


def _read(data_directory: str, host: str) -> HostCalls:
    document = read_fields(_path(data_directory, host))
    failure, not_kept = document.get("last_failure"), document.get("not_kept")
    return HostCalls(
        host,
        last_call=_number(document.get("last_call")),
        last_checkpoint=_number(document.get("last_checkpoint")),
        last_failure=dict(failure) if isinstance(failure, dict) else {},
        calls=int(_number(document.get("calls"))),
        unkept=str(document.get("unkept") or ""),
        unkept_at=_number(document.get("unkept_at")),
        not_kept=tuple(map(str, not_kept)) if isinstance(not_kept, list) else (),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
