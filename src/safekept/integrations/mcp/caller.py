"""Who asks, and what may be touched for them: everything that one call of a tool needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from urllib.parse import unquote_to_bytes, urlsplit

from safekept.actions.base.context import HomeRef, UserContext
from safekept.actions.base.own_places import known_homes
from safekept.actions.projects.checkpoint import CheckpointPolicy
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.core.next_step import NextStep
from safekept.core.records import dataclass
from safekept.settings import Settings, load_settings
from safekept.settings.context import context_of
from safekept.settings.policies import policy_from

from ..calls import possible
from ..connecting.keeping import holding
from ..plan_tokens import LIFETIME, Confirmations
from .answers import ToolAnswer, refused

# Which directories a client may speak of: the roots that it names, and never more. Links and `..` are
# resolved before anything is compared, and so is the project around a directory: a root inside a larger
# project gives no right to that project. What a person named with `--root` bounds what a client names;
# it is also what holds where a client names nothing.


class OutsideRoots(SafekeptError):
    code = "outside-roots"


@dataclass(frozen=True, slots=True)
class Roots:
    """Directories with their links resolved. `bounds` are those of `--root`; nothing: no bound."""

    places: tuple[str, ...]
    bounds: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        """Whether a resolved path lies in a root, and within the bounds."""
        return _within(path, self.places) and (not self.bounds or _within(path, self.bounds))

    @property
    def usable(self) -> tuple[str, ...]:
        """The roots that may be worked in: those within the bounds, and bounds that lie in a root."""
        return tuple(dict.fromkeys(place for place in (*self.places, *self.bounds) if self.holds(place)))

    def directory(self, word: str) -> str:
        """A directory that a client named, resolved; nothing: the first root. Raises OutsideRoots."""
        usable = self.usable
        if not usable or "\0" in word or (word and not possible(word)):
            raise self._refused(word[:200])
        place = os.path.realpath(os.path.join(usable[0], possible(word)))
        if not self.holds(place):
            raise self._refused(word)
        return place

    def need(self, path: str, what: str) -> None:
        """Refuse a project that is larger than the roots, or elsewhere."""
        if not self.holds(os.path.realpath(path)):
            raise OutsideRoots(
                f"{what} `{path}` lies outside the roots of this session",
                kept="Nothing changed there",
                next_steps=(
                    NextStep(
                        "mcp",
                        ("--root", path),
                        before="Have the client name it as a root, or start the server with it:",
                    ),
                ),
                path=path,
                roots=self.places,
            )

    def unknown(self, project: str) -> OutsideRoots:
        """No project within the roots has this id."""
        return OutsideRoots(
            f"No project with checkpoints within the roots of this session has the id `{project}`",
            kept="Nothing changed",
            next_steps=("List the resources again, or use the tool `list_checkpoints`",),
            roots=self.places,
        )

    def _refused(self, word: str) -> OutsideRoots:
        named = ", ".join(f"`{place}`" for place in self.usable[:5])
        return OutsideRoots(
            f"`{word}` lies outside the roots of this session" if word else "This session has no root",
            kept="Nothing changed",
            next_steps=(
                *((f"Name a directory in one of its roots: {named}",) if named else ()),
                NextStep("mcp", ("--root", "DIR"), before="Or start the server with another root:"),
            ),
            directory=word,
            roots=self.places,
        )


def fallback_roots(given: Iterable[str], environment: Mapping[str, str], directory: str) -> Roots:
    """What holds where the client names no roots: `--root`, else what its host says, else where we are."""
    bounds = tuple(dict.fromkeys(os.path.realpath(place) for place in given))
    named = environment.get("CLAUDE_PROJECT_DIR", "")
    return Roots(bounds or (os.path.realpath(named or directory),), bounds)


def client_roots(uris: Iterable[str], fallback: Roots) -> Roots:
    """The roots that a client named, as `file://` addresses. Where it named none, only `--root` is left."""
    places = tuple(dict.fromkeys(place for uri in uris if (place := _path_of(uri))))
    return Roots(places or fallback.bounds, fallback.bounds)


def _path_of(uri: str) -> str:
    """The directory of a `file://` address on this machine; nothing for any other."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return ""
    path = os.fsdecode(unquote_to_bytes(parts.path))
    return os.path.realpath(path) if path.startswith("/") and "\0" not in path else ""


def _within(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


class NotYourHome(SafekeptError):
    code = "not-your-home"


class ConfirmationRefused(SafekeptError):
    code = "confirmation-refused"


@dataclass(frozen=True, slots=True)
class Caller:
    """One call. Settings are read again for each, so that a change of them needs no new server."""

    roots: Roots
    settings: Settings
    context: UserContext
    confirmations: Confirmations = field(default_factory=Confirmations)
    listener: Listener = silent

    @classmethod
    def of(cls, roots: Roots, confirmations: Confirmations, listener: Listener = silent) -> Caller:
        settings = load_settings(os.environ)
        stands = roots.usable[0] if roots.usable else ""
        context = context_of(settings, actor="agent:mcp").changed(keep_connected=holding, directory=stands)
        return cls(roots, settings, context, confirmations, listener)

    @property
    def policy(self) -> CheckpointPolicy:
        return policy_from(self.settings, self.context)

    def home(self, home: str, *, existing: bool = True) -> HomeRef:
        """A home of this user: the agent's own place, or what the settings name; no other directory."""
        if "\0" in home:
            raise self._foreign(home)
        place = self.context.locate(home, existing=existing)
        if not self.is_own(place.home):
            raise self._foreign(place.home)
        return place

    def is_own(self, home: str) -> bool:
        """Whether a directory is a home of an agent of this user."""
        return os.path.realpath(home) in {os.path.realpath(one) for one in known_homes(self.context)}

    def _foreign(self, home: str) -> NotYourHome:
        known = [one for one in known_homes(self.context) if os.path.isdir(one)]
        named = ", ".join(f"`{one}`" for one in dict.fromkeys(known))
        return NotYourHome(
            f"`{home}` is not a home of an agent of this user",
            kept="Nothing changed",
            next_steps=(
                f"Name one of these, or none for the usual one: {named}"
                if named
                else "There is no agent's home of this user yet",
                "Or say which directory is the home: set `SAFEKEPT_HOME` where the server is started",
            ),
            home=home,
        )

    def planned(
        self, answer: ToolAnswer, token: str, fingerprint: str, *, differs: object = True
    ) -> ToolAnswer | None:
        """The answer where the plan may not be carried out, with a token to agree to it; or None.
        `differs`: whether it would change anything; where it would not there is nothing to agree to."""
        if not differs:
            answer.data["changed"] = False
            answer.add("Nothing would be changed, so there is nothing to confirm.")
            return answer
        refusal = self.confirmations.refusal(token, fingerprint) if token else ""
        if token and not refusal:
            return None
        fresh = self.confirmations.give(fingerprint)
        words = f'call this tool again with the same arguments and confirm="{fresh}"'
        answer.data |= {"confirm": fresh, "expires_in_seconds": int(LIFETIME), "changed": False}
        if refusal:
            error = _refused(refusal)
            shown = refused(error)
            answer.failed = True
            answer.lines = [*shown.lines, "", *answer.lines]
            answer.data |= shown.data
        answer.add("", f"Nothing was changed. To carry out exactly this plan, {words} within ten minutes.")
        return answer

    def spending(self, token: str) -> Callable[[str], None]:
        """Uses the token up for a plan, at the last moment before it is carried out."""

        def spend(fingerprint: str) -> None:
            refusal = self.confirmations.spend(token, fingerprint)
            if refusal:
                raise _refused(refusal)

        return spend


def _refused(why: str) -> ConfirmationRefused:
    return ConfirmationRefused(
        f"The token does not confirm this plan: {why}",
        kept="Nothing was changed",
        next_steps=("Look at the plan as it is now, and confirm it with the token that comes with it",),
    )
