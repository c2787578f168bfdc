"""Running a command as another user of this machine, who reaches what he needs of ours and nothing else.

The interpreter, the checkout and a test's directory often lie below a directory that is closed to others,
such as /root. A private mount namespace lays an open directory over each closed one, and shows there again
what was named. Nothing of it is seen outside.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys

from support.places import CHECKOUT

from .unprivileged import NOBODY

_STAGE = "/mnt"


def as_another_user(*reachable: str, user: int = NOBODY) -> list[str]:
    """How to begin such a command; empty where only root could: there everything is one user's."""
    if os.geteuid() != 0:
        return []
    interpreter = os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))
    paths = [interpreter, os.path.realpath(CHECKOUT), *map(os.path.realpath, reachable)]
    script = ["set -e", f"mount -t tmpfs -o mode=755 tmpfs {_STAGE}"]
    for number, path in enumerate(paths):
        script += [f"mkdir {_STAGE}/{number}", f"mount --rbind {shlex.quote(path)} {_STAGE}/{number}"]
    for closed in sorted({top for path in paths if (top := closed_above(path))}):
        script.append(f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(closed)}")
        for number, path in enumerate(paths):
            if closed_above(path) == closed:
                script += [
                    f"mkdir -p {shlex.quote(path)}",
                    f"mount --rbind {_STAGE}/{number} {shlex.quote(path)}",
                ]
    become = f'exec setpriv --reuid {user} --regid {user} --clear-groups "$@"'
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join([*script, become]), "sh"]
    done = subprocess.run([*words, "id", "-u"], capture_output=True, text=True)
    assert done.stdout.strip() == str(user), done.stderr
    return words


def give(path: str, user: int = NOBODY) -> str:
    """Everything below a path becomes that user's."""
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{user}:{user}", path], check=True)
    return path


def closed_above(path: str) -> str:
    """The topmost directory above a path that others may not enter; empty where all may be entered."""
    parts = path.split(os.sep)
    above = (os.sep.join(parts[:length]) or os.sep for length in range(1, len(parts)))
    return next((one for one in above if not os.stat(one).st_mode & stat.S_IXOTH), "")
