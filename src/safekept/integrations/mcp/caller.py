"""Who asks, and what may be touched for him: everything that one call of a tool needs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from safekept.actions.base.context import HomeRef, UserContext
from safekept.actions.base.own_places import known_homes
from safekept.actions.projects.checkpoint import CheckpointPolicy
from safekept.core.errors import SafekeptError
from safekept.core.events import Listener, silent
from safekept.settings import Settings, load_settings
from safekept.settings.context import context_of
from safekept.settings.policies import policy_from

from .answers import ToolAnswer, refused
from .roots import Roots
from .tokens import LIFETIME, Confirmations


class NotYourHome(SafekeptError):
    code = "not-your-home"


class ConfirmationRefused(SafekeptError):
    code = "confirmation-refused"


@dataclass(frozen=True, slots=True)
class Caller:
    """One call. Settings are read anew for each, so that a change of them needs no new server."""

    roots: Roots
    settings: Settings
    context: UserContext
    confirmations: Confirmations = field(default_factory=Confirmations)
    listener: Listener = silent

    @classmethod
    def of(cls, roots: Roots, confirmations: Confirmations, listener: Listener = silent) -> Caller:
        settings = load_settings(os.environ)
        context = context_of(settings, actor="agent:mcp")
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
            kept="Nothing was read or changed",
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
            said = refused(error)
            answer.failed = True
            answer.lines = [*said.lines, "", *answer.lines]
            answer.data |= said.data
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
        f"the token does not confirm this plan: {why}",
        kept="Nothing was changed",
        next_steps=("Look at the plan as it is now, and confirm it with the token that comes with it",),
    )
