"""Starting work that belongs to nobody: a session of its own, no streams, and no child left to us."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys

#: Seconds for a shell to start something and end.
_SHELL = 10.0


def run_detached(module: str, *words: str) -> None:
    """Start `main()` of a module of ours; it finds the words from `sys.argv[2]` on. Raises OSError."""
    import safekept

    root = os.path.dirname(os.path.dirname(os.path.abspath(safekept.__file__)))
    start = f"import sys; sys.path.insert(0, sys.argv[1]); from {module} import main; main()"
    command = shlex.join([sys.executable, "-I", "-c", start, root, *words])
    try:
        # The shell ends at once and is waited for; what it leaves behind is nobody's zombie.
        subprocess.run(
            ["/bin/sh", "-c", f"{command} </dev/null >/dev/null 2>&1 &"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            timeout=_SHELL,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error
