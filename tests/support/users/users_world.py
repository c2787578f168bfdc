"""A small machine of its own for tests with several users: real ones, made by `useradd`.

Every command runs in a private mount namespace in which /etc, /home, /run, /srv, /tmp and the places of
safekept below /var are directories of the test. Neither the machine's own users nor other tests see any of
it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping

from conftest import missing_part
from support.home.homes import make_hermes_home
from support.places import CHECKOUT
from support.users.another_user import closed_above

#: Directories of the test, and what they are inside; /tmp comes last, since the others may lie in it.
PLACES = {
    "etc": "/etc",
    "home": "/home",
    "srv": "/srv",
    "var-lib": "/var/lib",
    "var-cache": "/var/cache",
    "var-backups": "/var/backups",
    "var-tmp": "/var/tmp",
    "run": "/run",
    "tmp": "/tmp",
}
#: Where the checkout is shown a second time: nothing is laid over it, and only root writes above it.
STAGE = "/mnt"
ENTER = """
set -e
if [ -n "${CHECKOUT-}" ]; then mount --bind "$CHECKOUT" "$STAGE"; fi
if [ -n "${CLOSED-}" ]; then
    mount --bind "$PYTHON" /media
    mount -t tmpfs -o mode=755 tmpfs "$CLOSED"
    mkdir -p "$PYTHON"
    mount --bind /media "$PYTHON"
fi
for pair in $BINDINGS; do mount --bind "${pair%%=*}" "${pair#*=}"; done
if [ -n "${CHECKOUT-}" ]; then mkdir -p "$CHECKOUT"; mount --bind "$STAGE" "$CHECKOUT"; fi
unset BINDINGS CHECKOUT STAGE CLOSED PYTHON
exec "$@"
"""


class World:
    """The machine. `honest` and `mallory` live on it; root keeps something precious below /srv."""

    def __init__(self, place: str) -> None:
        self.place, self._checkout, self._for_all = place, CHECKOUT, False
        for name in PLACES:
            os.makedirs(os.path.join(place, name))
        for name in ("tmp", "var-tmp"):
            os.chmod(os.path.join(place, name), 0o1777)
        shutil.copytree("/etc", self.outside("/etc"), symlinks=True, dirs_exist_ok=True)
        for user in ("honest", "mallory"):
            self.run("useradd", "--create-home", "--shell", "/bin/sh", user, check=True)
            os.chmod(self.outside(f"/home/{user}"), 0o755)
        os.makedirs(self.outside("/srv/root"), 0o700)
        os.makedirs(self.outside("/srv/precious/kept"))
        os.makedirs(self.outside("/srv/precious/other/replaced"))
        for name in ("secret", "kept/one", "other/two", "other/replaced/three"):
            self.write(f"/srv/precious/{name}", f"{name} of root\n" * 100, mode=0o600)
        os.chmod(self.outside("/srv/precious"), 0o755)

    def outside(self, path: str) -> str:
        """Where a path of the machine really lies."""
        for name, inside in PLACES.items():
            if path == inside or path.startswith(inside + "/"):
                return os.path.join(self.place, name) + path[len(inside) :]
        raise ValueError(path)

    def write(self, path: str, text: str | bytes, owner: str = "", mode: int = 0o644) -> str:
        full = self.outside(path)
        self.directory(os.path.dirname(path), owner)
        with open(full, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
        os.chmod(full, mode)
        self.give(path, owner)
        return full

    def directory(self, path: str, owner: str = "") -> None:
        full = self.outside(path)
        if not os.path.isdir(full):
            self.directory(os.path.dirname(path), owner)
            os.mkdir(full)
            self.give(path, owner)

    def link(self, path: str, target: str, owner: str = "") -> None:
        self.directory(os.path.dirname(path), owner)
        os.symlink(target, self.outside(path))
        self.give(path, owner)

    def give(self, path: str, owner: str) -> None:
        if owner:
            uid = self.uid(owner)
            os.lchown(self.outside(path), uid, uid)

    def give_all(self, path: str, owner: str) -> None:
        uid = self.uid(owner)
        for parent, directories, files in os.walk(self.outside(path)):
            os.lchown(parent, uid, uid)
            for name in (*directories, *files):
                os.lchown(os.path.join(parent, name), uid, uid)

    def uid(self, user: str) -> int:
        with open(self.outside("/etc/passwd")) as file:
            return next(int(line.split(":")[2]) for line in file if line.startswith(user + ":"))

    def hermes_home(self, user: str, path: str = "") -> str:
        """A home of that user; the path inside."""
        home = path or f"/home/{user}/.hermes"
        make_hermes_home(self.outside(home), awkward=False)
        self.give_all(home, user)
        return home

    def run(
        self,
        *words: str,
        user: str = "",
        environment: Mapping[str, str] | None = None,
        check: bool = False,
        patience: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on the machine, as root or as that user."""
        return subprocess.run(
            [*_enter(), *self._become(user), *words],
            env={**self._environment(), **(environment or {})},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            stdin=subprocess.DEVNULL,
            timeout=patience,
            check=check,
            cwd="/",
        )

    def start(self, *words: str, user: str) -> subprocess.Popen[bytes]:
        """The same, running beside what follows."""
        return subprocess.Popen(
            [*_enter(), *self._become(user), *words],
            env=self._environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            cwd="/",
        )

    def safekept(self, *words: str, environment: Mapping[str, str] | None = None, patience: float = 300):
        """safekept as root, whose own places are below /srv/root."""
        own = {"HOME": "/srv/root", "SAFEKEPT_HELPER": "0", **(environment or {})}
        return self.run(*self.program(), *words, environment=own, patience=patience)

    def program(self, source: str = "") -> list[str]:
        """How safekept is started; `source`: with the code in that place."""
        start = "import sys; sys.path.insert(0, sys.argv.pop(1)); from safekept.__main__ import main; main()"
        interpreter = sys.executable.replace(CHECKOUT, self._checkout, 1)
        return [interpreter, "-I", "-c", start, source or os.path.join(self._checkout, "src")]

    def use_roots_own(self) -> None:
        """From now on the program lies where only root can write, whatever is above this checkout."""
        self._checkout = STAGE

    def let_all_run_it(self) -> None:
        """The same, and its users reach the interpreter: that may lie below a closed directory."""
        self.use_roots_own()
        self._for_all = True

    def system(self, user: str, *words: str, patience: float = 300):
        """safekept as root, for the home of that user, with the stores of the system."""
        return self.safekept(*words, environment={"SAFEKEPT_SYSTEM_USER": user}, patience=patience)

    def seen(self, *paths: str, but_of: str = "") -> dict[str, tuple[object, ...]]:
        """Every byte and right below these paths, except what belongs to that user."""
        found: dict[str, tuple[object, ...]] = {}
        left = self.uid(but_of) if but_of else -1
        for path in paths:
            top = self.outside(path)
            for parent, directories, files in os.walk(top):
                for name in ("", *directories, *files):
                    full = os.path.join(parent, name) if name else parent
                    facts = os.lstat(full)
                    if facts.st_uid != left:
                        found[path + full[len(top) :]] = _facts(full, facts)
        return found

    def _become(self, user: str) -> list[str]:
        if not user:
            return []
        uid = str(self.uid(user))
        return ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]

    def _environment(self) -> dict[str, str]:
        bindings = " ".join(f"{os.path.join(self.place, name)}={inside}" for name, inside in PLACES.items())
        found = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "BINDINGS": bindings}
        if self._checkout == STAGE or any(CHECKOUT.startswith(inside + "/") for inside in PLACES.values()):
            # A clone that stands where the world lays something over it is seen through it.
            found |= {"CHECKOUT": CHECKOUT, "STAGE": STAGE}
        python = os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))
        if self._for_all and (closed := closed_above(python)):
            found |= {"PYTHON": python, "CLOSED": closed}
        return found


def _enter() -> list[str]:
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "sh"]


def _facts(full: str, facts: os.stat_result) -> tuple[object, ...]:
    kind, rights = stat.S_IFMT(facts.st_mode), (oct(facts.st_mode), facts.st_uid, facts.st_gid)
    if stat.S_ISREG(facts.st_mode):
        with open(full, "rb") as file:
            return (*rights, facts.st_size, hashlib.sha256(file.read()).hexdigest(), facts.st_mtime_ns)
    return (*rights, os.readlink(full)) if stat.S_ISLNK(facts.st_mode) else (*rights, kind)


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """The document of a command that was called with `--json`."""
    return dict(json.loads(done.stdout))


def made_world(place: str) -> World:
    """A machine in an empty directory; skips where there can be none."""
    if os.geteuid() != 0:
        missing_part("needs root, to have several users")
    if subprocess.run([*_enter(), "true"], env={"PATH": os.defpath, "BINDINGS": ""}).returncode:
        missing_part("this kernel gives no private mount namespace")
    return World(place)
