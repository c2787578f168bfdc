"""Make the keeper a service of this machine, and take that back: a plan to look at first, then the deed.

What is taken back is the service. The store stays unless a person says otherwise: it may be the only copy.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.files import durable_write, remove_quietly
from safekept.core.files.small import read_regular
from safekept.core.records import dataclass
from safekept.keeper.store import KEEP_DAYS, STORE, KeeperLimits, KeeperStore, default_quota
from safekept.keeper.units import AFTER, DIRECTORY, MARK, RESTART, START, STOP, USER, unit_files

from ..schedule.host import Machine
from ..schedule.install import Installation
from ..schedule.of_machine import plan_nightly, runs_of_machine

#: Runs a program; its status and what it printed.
Runner = Callable[[Sequence[str]], tuple[int, str]]
_PATIENCE = 120.0
_SYSTEMD = "/run/systemd/system"
_NIGHTLY_MARK = MARK.removeprefix("# ")
_ADD_USER = ("useradd", "--system", "--home-dir", STORE, "--no-create-home", "--shell", "/usr/sbin/nologin")


class KeeperNotInstalled(SafekeptError):
    code = "keeper-install-failed"


class NotRoot(SafekeptError):
    code = "not-root"


@dataclass(frozen=True, slots=True)
class KeeperPlan:
    """What would be made; nothing is, until `install` is called with it."""

    limits: KeeperLimits
    program: tuple[str, ...]
    makes_user: bool
    files: dict[str, str] = field(default_factory=dict)  # path -> text; none without systemd
    nightly: tuple[Installation, ...] = ()  # the run of each user whom root looks after

    @property
    def serve(self) -> tuple[str, ...]:
        """What a supervisor runs where there is no systemd."""
        return (*self.program, "keeper", "serve")

    def as_dict(self) -> dict[str, object]:
        return {
            "user": USER,
            "makes_user": self.makes_user,
            "store": STORE,
            "quota": self.limits.quota,
            "keep_days": self.limits.keep_days,
            "files": self.files,
            "serve": list(self.serve) if not self.files else None,
            "nightly": [{"user": one.user, "host": one.host, "files": one.files} for one in self.nightly],
        }


def run_command(words: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)
    return done.returncode, done.stdout


def plan_keeper(
    machine: Machine,
    program: tuple[str, ...],
    users: Collection[str] = (),
    quota: int = 0,
    keep_days: float = 0.0,
) -> KeeperPlan:
    """What to make here. Changes nothing. `users`: who gets a nightly run, besides those who have one."""
    above = STORE if os.path.isdir(STORE) else os.path.dirname(STORE)
    earlier = KeeperStore(STORE).limits if os.path.isdir(STORE) else None
    limits = KeeperLimits(
        quota or (earlier.quota if earlier else default_quota(above)),
        keep_days or (earlier.keep_days if earlier else KEEP_DAYS),
    )
    systemd = os.path.isdir(_SYSTEMD)
    files = unit_files(program) if systemd else {}
    there = [one for one in runs_of_machine(_NIGHTLY_MARK) if one not in users and _exists(one)]
    nightly = tuple(_nightly(machine, program, one) for one in (*users, *there))
    return KeeperPlan(limits, program, not _exists(USER), files, nightly)


def _nightly(machine: Machine, program: tuple[str, ...], user: str) -> Installation:
    if not _exists(user):
        raise KeeperNotInstalled(
            f"There is no user `{user}` on this machine",
            kept="Nothing was installed",
            next_steps=("Name a user who is in `getent passwd`",),
            user=user,
        )
    plan = plan_nightly(machine, program, user, _NIGHTLY_MARK)
    for path in plan.files:
        if os.path.lexists(path) and _NIGHTLY_MARK.encode() not in _content(path):
            raise KeeperNotInstalled(
                f"`{path}` exists, and safekept did not write it",
                kept="It was left as it is; nothing was installed",
                next_steps=("Move it away, then run the command again",),
                path=path,
            )
    return plan


def install(plan: KeeperPlan, run: Runner = run_command) -> None:
    """Make it so; run again, it makes the same. Raises with what was made named."""
    if plan.makes_user:
        _expect(run, (*_ADD_USER, USER))
    found = pwd.getpwnam(USER)
    os.makedirs(STORE, 0o700, exist_ok=True)
    if os.path.islink(STORE):
        raise KeeperNotInstalled(
            f"`{STORE}` is a link", kept="Nothing was installed", next_steps=("Move it away",)
        )
    os.chown(STORE, found.pw_uid, found.pw_gid)
    os.chmod(STORE, 0o700)
    KeeperStore(STORE).set_limits(plan.limits)
    os.chown(os.path.join(STORE, "settings.json"), found.pw_uid, found.pw_gid)
    for path, text in plan.files.items():
        durable_write(path, text.encode(), 0o644)
    if plan.files:
        for words in START:
            _expect(run, words)
        run(RESTART)
    for nightly in plan.nightly:
        for path, text in nightly.files.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            durable_write(path, text.encode(), 0o644)
        for command in nightly.start:
            _expect(run, command)


@dataclass(frozen=True, slots=True)
class KeeperRemoval:
    """What would go."""

    files: tuple[str, ...]  # unit files of ours
    left: tuple[str, ...]  # those that safekept did not write
    store: str  # "" where there is none
    nightly: dict[str, list[str]] = field(default_factory=dict)  # user -> files of ours

    def as_dict(self) -> dict[str, object]:
        return {
            "files": list(self.files),
            "left": list(self.left),
            "store": self.store or None,
            "nightly": self.nightly,
        }


def plan_removal(users: Collection[str] = ()) -> KeeperRemoval:
    """All of it; with `users`, their nightly runs alone."""
    nightly = runs_of_machine(_NIGHTLY_MARK)
    if users:
        return KeeperRemoval((), (), "", {user: nightly[user] for user in users if user in nightly})
    ours: list[str] = []
    others: list[str] = []
    for path in unit_files(("safekept",), DIRECTORY):
        if content := _content(path):
            (ours if content.startswith(MARK.encode()) else others).append(path)
    return KeeperRemoval(tuple(ours), tuple(others), STORE if os.path.isdir(STORE) else "", nightly)


def remove(plan: KeeperRemoval, *, store: bool, run: Runner = run_command) -> list[str]:
    """Take the service away, and with `store` everything that it holds; what went wrong, in lines."""
    remarks = []

    def attempt(*words: str) -> None:
        code, text = run(words)
        if code:
            said = " ".join(text.split())[:200]
            remarks.append(f"`{' '.join(words)}` ended with status {code}: {said}")

    for files in plan.nightly.values():
        timers = [os.path.basename(path) for path in files if path.endswith(".timer")]
        for timer in timers:
            attempt("systemctl", "disable", "--now", timer)
        for path in files:
            remove_quietly(path)
        if timers:
            attempt(*AFTER)
    if plan.files:
        for words in STOP:
            attempt(*words)
        for path in plan.files:
            remove_quietly(path)
        attempt(*AFTER)
    if store:
        shutil.rmtree(STORE, ignore_errors=True)
        if os.path.lexists(STORE):
            remarks.append(f"`{STORE}` could not be deleted whole")
        if _exists(USER):
            attempt("userdel", USER)
    return remarks


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _content(path: str) -> bytes:
    try:
        return read_regular(path)
    except OSError:
        return b""


def _expect(run: Runner, words: Sequence[str]) -> None:
    code, text = run(words)
    if code:
        raise KeeperNotInstalled(
            f"`{' '.join(words)}` ended with status {code}: {' '.join(text.split())[:300]}",
            kept="What the keeper holds, if anything, is as it was; run it again when that works",
            next_steps=("Run that command by itself to see why",),
            command=list(words),
            status=code,
        )
