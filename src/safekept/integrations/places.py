"""One user's settings, loaded for one environment: what every call of their agents is judged by.

Settings that are wrong do not leave a project without protection: the defaults hold until they are
mended, and every outcome says so.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from safekept.core.errors import SafekeptError
from safekept.core.records import dataclass
from safekept.core.versions import STATE_FILE

from .connecting.keeping import holding
from .helper.client import counts

if TYPE_CHECKING:
    from safekept.actions.base.context import UserContext
    from safekept.actions.projects.checkpoint import CheckpointPolicy
    from safekept.settings import Settings


#: later(key, work): do it off the caller's path; of two with one key that wait, one is enough.
Later = Callable[[Hashable, Callable[[], None]], None]
#: Sessions whose notices are remembered.
_SESSIONS = 100


@dataclass(frozen=True)
class Place:
    """What holds for one environment."""

    settings: Settings
    context: UserContext
    troubles: tuple[SafekeptError, ...] = ()  # what is wrong with the settings, if anything is
    later: Later | None = None  # None: there is nothing that could do it later
    apart: bool = False  # this process is there for one call, and nothing waits for it
    messages: dict[str, set[str]] = field(default_factory=dict)  # session -> what it was told

    @classmethod
    def load(cls, environment: Mapping[str, str], later: Later | None = None) -> Place:
        """What is wrong with the settings is in `troubles`. Raises only where a newer safekept wrote the
        state: there is nothing that this one may do there."""
        from safekept.core.versions import StateIsNewer
        from safekept.settings import SYSTEM_USER, load_settings
        from safekept.settings.context import context_of
        from safekept.settings.loading import default_settings

        troubles: tuple[SafekeptError, ...] = ()
        try:
            settings = load_settings(environment)
            context = context_of(settings, actor="agent")
        except StateIsNewer:
            raise
        except SafekeptError as error:
            troubles = (error,)
            # An unknown user owns no places: those of the user who runs this are as good as any.
            # As root, what belongs to another user is not ours to obey; root's own is.
            others = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
            left = (SYSTEM_USER, *(others if error.code == "places-of-another" else ()))
            own = {name: value for name, value in environment.items() if name not in left}
            settings = default_settings(own)
            context = context_of(settings, actor="agent")
        try:
            len(context.choices.layouts)
        except SafekeptError as error:  # a layout of the user's own is broken; ours are there
            from safekept.home.layout import load_layouts

            troubles = (*troubles, error)
            context = context.changed(layouts=load_layouts(()))
        return cls(settings, context.changed(keep_connected=holding), troubles, later)

    @property
    def data_directory(self) -> str:
        return self.context.places.data_directory

    @property
    def environment(self) -> Mapping[str, str]:
        return self.context.caller.environment

    @cached_property
    def policy(self) -> CheckpointPolicy:
        from safekept.settings.policies import checkpoint_policy, guarded, policy_from

        try:
            return policy_from(self.settings, self.context)
        except (SafekeptError, OSError, ValueError):
            return guarded(checkpoint_policy(self.settings), self.context)

    @cached_property
    def forbidden(self) -> tuple[str, ...]:
        """Directories that are never a project."""
        from safekept.actions.projects.guarding import forbidden_roots

        return forbidden_roots(self.context)

    @cached_property
    def homes(self) -> tuple[tuple[str, str], ...]:
        """Every agent's home that is there, resolved, with its layout's name; the innermost first."""
        from safekept.actions.base.own_places import known_homes
        from safekept.core.agents import recognise_home

        found = {home: recognise_home(home, self.context.home_places) for home in known_homes(self.context)}
        found = {home: name for home, name in found.items() if name}
        for name in self.context.choices.layouts:  # one that is empty still is by its name alone
            try:
                home = self.context.locate(layout=name, existing=False).home
            except SafekeptError:
                continue
            if home and os.path.isdir(home):
                found.setdefault(os.path.realpath(home), name)
        found.pop(os.path.realpath(self.user_home), None)
        return tuple(sorted(found.items(), key=lambda pair: len(pair[0]), reverse=True))

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files and directories behind it: where one of them changes, it is to be loaded again."""
        config = self.settings.config_directory
        layouts = [os.path.join(config, "layouts"), *self.settings.texts("layouts")]
        found = [os.path.join(config, "config.toml"), os.path.join(self.data_directory, STATE_FILE), *layouts]
        for layout in layouts:
            with contextlib.suppress(OSError):
                found += [os.path.join(layout, name) for name in sorted(os.listdir(layout))[:100]]
        with contextlib.suppress(SafekeptError):
            hermes = self.context.locate(layout="hermes", existing=False).home
            found.append(os.path.join(hermes, "config.yaml"))
        return tuple(found)

    @property
    def user_home(self) -> str:
        return self.context.places.user_home

    def acting(self, host: str) -> UserContext:
        """The context with the agent's name for the journal."""
        if self.context.caller.actor != "agent" or not host:
            return self.context
        return self.context.changed(actor=f"agent:{host}")

    def first_time(self, session: str, text: str) -> bool:
        """Whether a session was not told this yet."""
        messages = self.messages.setdefault(session, set())
        for old in list(self.messages)[:-_SESSIONS]:
            self.messages.pop(old, None)
        new = text not in messages
        messages.add(text)
        return new


# Settings of every environment that asked lately, loaded again when a file behind them changed.

_MOST = 16
#: Loaded again after so many seconds in any case, since homes come and go; but no caller waits for that.
_SECONDS = 60.0

Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    place: Place
    files: tuple[str, ...]
    stamp: tuple[object, ...]
    loaded: float


class PlaceCache:
    """One `Place` for each environment. `base`: the helper's own, for what no caller sends."""

    def __init__(self, base: Mapping[str, str], later: Later) -> None:
        # What a caller could have said and did not say is not said by the starter of the helper either.
        self._base = {name: value for name, value in base.items() if not counts(name)}
        self._later = later
        self._lock = threading.Lock()
        self._kept: dict[Key, _Kept] = {}

    def get(self, sent: Mapping[str, str]) -> Place:
        """What holds for a caller; a `Place` says itself what is wrong with its settings."""
        key = tuple(sorted(sent.items()))
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is None or _stamp(kept.files) != kept.stamp:
                kept = self._load(sent, kept)
            self._kept[key] = kept  # the one used last is the last to go
            while len(self._kept) > _MOST:
                self._kept.pop(next(iter(self._kept)))
        if time.monotonic() - kept.loaded >= _SECONDS:
            self._later(("place", key), lambda: self._refresh(key))
        return kept.place

    def _refresh(self, key: Key) -> None:
        with self._lock:
            before = self._kept.get(key)
        if before is None:
            return
        new = self._load(dict(key), before)
        place = new.place
        _ = (place.policy, place.homes, place.forbidden)  # looked up once, here
        with self._lock:
            if self._kept.get(key) is before:
                self._kept[key] = new

    def _load(self, sent: Mapping[str, str], before: _Kept | None) -> _Kept:
        place = Place.load({**self._base, **sent}, self._later)
        if before is not None:
            place = replace(place, messages=before.place.messages)
        files = place.files
        return _Kept(place, files, _stamp(files), time.monotonic())


def _stamp(files: tuple[str, ...]) -> tuple[object, ...]:
    marks: list[object] = []
    for path in files:
        try:
            found = os.stat(path)
            marks.append((found.st_ino, found.st_mtime_ns, found.st_size))
        except OSError:
            marks.append(None)
    return tuple(marks)
