"""Make the keeper a service of this machine, and take that back: a plan to look at first, then the deed.

What is taken back is the service. The store stays unless a person says otherwise: it may be the only copy.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import field

from safekept.core.errors import SafekeptError
from safekept.core.files import durable_write, remove_quietly
from safekept.core.files.small import read_regular
from safekept.core.records import dataclass
from safekept.keeper.store import KEEP_DAYS, STORE, KeeperStore, Limits, default_quota
from safekept.keeper.units import AFTER, DIRECTORY, MARK, RESTART, START, STOP, USER, unit_files

#: Runs a program; its status and what it printed.
Runner = Callable[[Sequence[str]], tuple[int, str]]
_PATIENCE = 120.0
_SYSTEMD = "/run/systemd/system"
_ADD_USER = ("useradd", "--system", "--home-dir", STORE, "--no-create-home", "--shell", "/usr/sbin/nologin")


class KeeperNotInstalled(SafekeptError):
    code = "keeper-install-failed"


class NotRoot(SafekeptError):
    code = "not-root"


@dataclass(frozen=True, slots=True)
class KeeperPlan:
    """What would be made; nothing is, until `install` is called with it."""

    limits: Limits
    program: tuple[str, ...]
    makes_user: bool
    files: dict[str, str] = field(default_factory=dict)  # path -> text; none without systemd

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


def plan_keeper(program: tuple[str, ...], quota: int = 0, keep_days: float = 0.0) -> KeeperPlan:
    """What to make here. Changes nothing."""
    above = STORE if os.path.isdir(STORE) else os.path.dirname(STORE)
    earlier = KeeperStore(STORE).limits if os.path.isdir(STORE) else None
    limits = Limits(
        quota or (earlier.quota if earlier else default_quota(above)),
        keep_days or (earlier.keep_days if earlier else KEEP_DAYS),
    )
    systemd = os.path.isdir(_SYSTEMD)
    return KeeperPlan(limits, program, not _user_exists(), unit_files(program) if systemd else {})


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


@dataclass(frozen=True, slots=True)
class KeeperRemoval:
    """What would go."""

    files: tuple[str, ...]  # unit files of ours
    left: tuple[str, ...]  # those that somebody else wrote
    store: str  # "" where there is none

    def as_dict(self) -> dict[str, object]:
        return {"files": list(self.files), "left": list(self.left), "store": self.store or None}


def plan_removal() -> KeeperRemoval:
    ours: list[str] = []
    others: list[str] = []
    for path in unit_files(("safekept",), DIRECTORY):
        try:
            content = read_regular(path)
        except OSError:
            continue
        (ours if content.startswith(MARK.encode()) else others).append(path)
    return KeeperRemoval(tuple(ours), tuple(others), STORE if os.path.isdir(STORE) else "")


def remove(plan: KeeperRemoval, *, store: bool, run: Runner = run_command) -> list[str]:
    """Take the service away, and with `store` everything that it holds; what went wrong, in lines."""
    remarks = []

    def attempt(*words: str) -> None:
        code, text = run(words)
        if code:
            said = " ".join(text.split())[:200]
            remarks.append(f"`{' '.join(words)}` ended with status {code}: {said}")

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
        if _user_exists():
            attempt("userdel", USER)
    return remarks


def _user_exists() -> bool:
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return False
    return True


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
