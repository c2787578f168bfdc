"""All that a home has lost, in one sentence; a profile or a home that is gone is one loss, with one place.

The counted classes are only a part of what a profile holds: its plugins are not counted, for example. So what
brings back a profile that is gone is its directory, never a list of what was counted in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from safekept.core.records import dataclass

from ..layout.layout import Layout
from .loss_rules import Counts, Shrinkage, places_of, some

#: A profile that had so many classes, and now holds nothing of any, is gone, though a directory is left.
_CLASSES = 3
#: More places than this in one profile, and its directory is named instead: a command is to be read.
_PLACES = 3


@dataclass(frozen=True, slots=True)
class LossSummary:
    """What fell, and which of it is gone altogether."""

    falls: tuple[Shrinkage, ...] = ()
    profiles: tuple[str, ...] = ()  # `profiles/coder`: nothing of it is left; with `whole`, all there were
    whole: bool = False  # nothing of the whole home is left

    @property
    def texts(self) -> tuple[str, ...]:
        """Each loss in words: `18 of 19 cron jobs are gone`, `the profile coder is gone`."""
        if self.whole:
            return ("everything is gone",)
        texts = (
            text if profile == "default" else f"{profile}: {text}"
            for profile, falls in self._by_profile().items()
            for text in _texts(falls)
        )
        return (*texts, *self._gone)

    @property
    def text(self) -> str:
        """All of it in one line, each profile named once: `5 of 12 memories are gone; profiles/coder: …`."""
        if self.whole:
            return "everything is gone"
        falls = self._by_profile()
        own = ", ".join([*_texts(falls.pop("default", ())), *self._gone])
        others = (f"{profile}: {', '.join(_texts(fell))}" for profile, fell in falls.items())
        return "; ".join(filter(None, (own, *others)))

    def _by_profile(self) -> dict[str, list[Shrinkage]]:
        found: dict[str, list[Shrinkage]] = {}
        for fall in self._alone:
            found.setdefault(fall.profile, []).append(fall)
        return found

    @property
    def _alone(self) -> list[Shrinkage]:
        """What fell in a profile that is there."""
        return [fall for fall in self.falls if self.place_of(fall) is None]

    @property
    def _gone(self) -> list[str]:
        return [f"the profile {profile.rpartition('/')[2]} is gone" for profile in self.profiles]

    def place_of(self, fall: Shrinkage) -> str | None:
        """What is gone with it: a profile, or "" for the home; None where only this is."""
        if self.whole:
            return ""
        return fall.profile if fall.profile in self.profiles else None

    def places(self, layout: Layout) -> tuple[str, ...]:
        """What brings it back, each place once; nothing: the whole home."""
        if self.whole:
            return ()
        folded = self.folded(layout)
        paths = [folded.get(path, path) for fall in self._alone for path in places_of(layout, fall)]
        outer = [path for path in paths if not any(path.startswith(f"{one}/") for one in paths)]
        return tuple(dict.fromkeys([*outer, *self.profiles]))

    def folded(self, layout: Layout) -> dict[str, str]:
        """Emptied files of which one directory has many, each with the directory to restore instead."""
        below: dict[str, list[str]] = {}
        for fall in self._alone:
            if fall.emptied and "/" in fall.name:
                (path,) = places_of(layout, fall)
                top = path[: len(path) - len(fall.name)] + fall.name.partition("/")[0]
                below.setdefault(top, []).append(path)
        return {path: top for top, paths in below.items() if len(paths) > _PLACES for path in paths}

    def named_places(self, layout: Layout) -> tuple[str, ...]:
        """The same for a command that a person reads: a profile with many of them is named by itself."""
        inside = {
            one: self._below(one, layout) for one in dict.fromkeys(fall.profile for fall in self._alone)
        }
        many = {one: set(paths) for one, paths in inside.items() if one != "default" and len(paths) > _PLACES}
        few = [path for path in self.places(layout) if not any(path in paths for paths in many.values())]
        return tuple(dict.fromkeys([*few, *many]))

    def _below(self, profile: str, layout: Layout) -> list[str]:
        falls, folded = (fall for fall in self._alone if fall.profile == profile), self.folded(layout)
        return list(
            dict.fromkeys(folded.get(path, path) for fall in falls for path in places_of(layout, fall))
        )


def _texts(falls: Iterable[Shrinkage]) -> list[str]:
    """Each in words; files that are empty in one phrase: `skills/a/SKILL.md and .env are empty`."""
    falls = list(falls)
    names = [fall.name for fall in falls if fall.emptied]
    texts = [fall.bare for fall in falls if not fall.emptied]
    if len(names) == 1:
        texts.insert(0, f"{names[0]} is empty")
    elif names:
        listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= _PLACES else some(names)
        texts.insert(0, f"{listed} are empty")
    return texts


def summarize_losses(
    falls: Iterable[Shrinkage], before: Counts, after: Counts, *, every: bool = True
) -> LossSummary:
    """What fell, by the counts before and after. `every`: `after` has all profiles that are there."""
    fell = tuple(falls)
    named = dict.fromkeys(fall.profile for fall in fell)
    gone = {profile for profile in before if _is_gone(profile, before, after, every)}
    had = {profile for profile, counts in before.items() if any(counts.values())}
    if fell and "default" in gone and had <= gone:
        return LossSummary(fell, tuple(named), whole=True)
    return LossSummary(fell, tuple(one for one in named if one in gone and one != "default"))


def _is_gone(profile: str, before: Counts, after: Counts, every: bool) -> bool:
    now = after.get(profile)
    if now is None:
        return every and profile != "default"
    had = [name for name, count in before[profile].items() if count]
    return len(had) >= _CLASSES and all(now.get(name) == 0 for name in had)
