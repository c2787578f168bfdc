"""A few SFTP connections for many threads: each is used by one thread at a time.

Connections are opened when they are needed. Where a server does not allow another one while some are
open, those have to do. One that was left in the middle of something is ended and never used again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from .channel import Channel, Lost


class Pool:
    def __init__(self, connect: Callable[[], Channel], most: int) -> None:
        self._connect = connect
        self._most = max(1, most)
        self._idle: list[Channel] = []
        self._open = 0
        self._closed = False
        self._change = threading.Condition()

    @contextlib.contextmanager
    def channel(self) -> Iterator[Channel]:
        channel = self._take()
        try:
            yield channel
        finally:
            self._give_back(channel)

    def close(self) -> None:
        with self._change:
            self._closed = True
            idle, self._idle = self._idle, []
            self._open -= len(idle)
        for channel in idle:
            channel.end()

    def _take(self) -> Channel:
        while True:
            with self._change:
                while not self._idle and self._open >= self._most:
                    self._change.wait()
                if self._closed:
                    raise Lost("the place was closed")
                if self._idle:
                    channel = self._idle.pop()
                    if channel.idle:
                        return channel
                    self._open -= 1
                else:
                    self._open += 1
                    channel = None
            if channel is not None:  # the server hung up while nobody looked
                channel.end()
                continue
            try:
                return self._connect()
            except BaseException as error:
                with self._change:
                    self._open -= 1
                    # Some servers allow only so many at once: go on with those there are.
                    others = self._open > 0 and isinstance(error, Lost)
                    if others:
                        self._most = self._open
                    self._change.notify_all()
                if not others:
                    raise

    def _give_back(self, channel: Channel) -> None:
        with self._change:
            usable = channel.idle and not self._closed
            if usable:
                self._idle.append(channel)
            else:
                self._open -= 1
            self._change.notify()
        if not usable:
            channel.end()
