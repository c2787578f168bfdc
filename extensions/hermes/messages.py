"""Says to the user that something is not protected: once for each session and each thing.

At a terminal on standard error; elsewhere standard output and standard error belong to another program, so it
goes to Hermes's log. It never goes to the model.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import OrderedDict

_log = logging.getLogger(__name__)
_MOST = 2_000


class UserMessages:
    """Remembers what was shown to whom."""

    def __init__(self) -> None:
        self._said: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._platforms: dict[str, str] = {}
        self._lock = threading.Lock()

    def heard_on(self, session: str, platform: str) -> None:
        """Which surface a session is on."""
        with self._lock:
            if len(self._platforms) > _MOST:
                self._platforms.clear()
            self._platforms[session] = platform

    def say(self, text: str, session: str = "") -> bool:
        """Tell it, unless this session has heard it. Whether it was told."""
        with self._lock:
            if (session, text) in self._said:
                return False
            self._said[session, text] = None
            if len(self._said) > _MOST:
                self._said.popitem(last=False)
            platform = self._platforms.get(session, "")
        _log.warning("safekept: %s", text)
        if platform == "cli":
            _to_terminal(f"safekept: {text}\n")
        return True


def one_shot() -> bool:
    """Whether this is `hermes -z`: it ends without telling, and gives standard error away meanwhile."""
    # Hermes may call a hook on a thread of its own: then it is the main thread that stands in there.
    own = sys._current_frames().get(threading.main_thread().ident or 0)
    for begun in (sys._getframe(), own):
        frame = begun
        while frame is not None:
            if frame.f_globals.get("__name__") == "hermes_cli.oneshot":
                return True
            frame = frame.f_back
    return False


def _to_terminal(text: str) -> None:
    stream = sys.__stderr__ if one_shot() else sys.stderr
    try:
        if stream is not None:
            stream.write(text)
            stream.flush()
    except (OSError, ValueError):
        return
