"""Every error of a place off this host: what happened, what was kept safe, what to do next.

SafekeptError
├── BadAddress         2  an address that cannot be understood, or with a password in it
├── PlaceMissing      10  the root is not there: a drive that is not mounted, a bucket that does not exist
├── PlaceUnreachable   1  no connection, silence, server errors, after all retries (may be tried again)
├── PlaceRefused       1  the credential is missing, wrong, expired, or may not do this
├── HostKeyRefused     1  the server's key is unknown or is not the one in known_hosts
├── PlaceWrong         1  the place did not store or give back what it claims
└── ProgramMissing     1  ssh or rclone is not installed

The texts name the place and the reason in the server's words, with everything cut off that could be a
secret. `kept` is always the same truth: a write is whole or did not happen.
"""

from __future__ import annotations

from ..errors import SafekeptError

#: How the system, ssh and rclone say that nothing answers there.
_NOBODY = (
    "connection refused",
    "connection timed out",
    "no answer in time",
    "operation timed out",
    "i/o timeout",
    "no such host",
    "could not resolve",
    "no route to host",
    "unreachable",
)
WHOLE = "What was stored there before is whole; nothing stands there half written"


class BadAddress(SafekeptError):
    code, exit_code = "bad-address", 2


class PlaceMissing(SafekeptError):
    code, exit_code, retry = "place-missing", 10, True


class PlaceUnreachable(SafekeptError):
    code, retry = "place-unreachable", True

    @property
    def nobody_answered(self) -> bool:
        """Whether there was no sign of a server at all: no connection, or none in time."""
        reason = str(self.facts.get("reason", "")).lower()
        return any(sign in reason for sign in _NOBODY)


class PlaceRefused(SafekeptError):
    code = "place-refused"


class HostKeyRefused(SafekeptError):
    code = "host-key-refused"


class PlaceWrong(SafekeptError):
    code = "place-wrong"


class ProgramMissing(SafekeptError):
    code = "program-missing"


def unreachable(place: str, reason: str) -> PlaceUnreachable:
    return PlaceUnreachable(
        f"`{place}` cannot be reached: {reason}",
        kept=WHOLE,
        next_steps=("See that this machine is online and the server answers, then run the command again",),
        place=place,
        reason=reason,
    )


def refused(place: str, verb: str, reason: str, *steps: str) -> PlaceRefused:
    return PlaceRefused(
        f"`{place}` does not let us {verb}: {reason}",
        kept=WHOLE,
        next_steps=steps or ("See that the credential is the right one, has not expired and may do this",),
        place=place,
        reason=reason,
    )


def wrong(place: str, name: str, reason: str) -> PlaceWrong:
    return PlaceWrong(
        f"`{place}` did not keep `{name}` as it was sent: {reason}",
        kept="The original on this machine is untouched, and other objects in that place were not changed",
        next_steps=("Run the command again; if it happens again, do not trust that place",),
        place=place,
        name=name,
        reason=reason,
    )
