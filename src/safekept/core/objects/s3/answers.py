"""What an S3 server's refusal means, out of what obstore says about it.

Only the status, the error code and its message are taken from an answer: the rest of it holds addresses,
key ids and signed strings, which belong in no error of ours.
"""

from __future__ import annotations

import re

from ...errors import SafekeptError
from ...files import NoRoom
from ...records import dataclass
from ..errors import WHOLE, PlaceMissing, refused, unreachable

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,60})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_REGION = re.compile(r"<Region>([a-z0-9-]{1,40})</Region>|expecting '([a-z0-9-]{1,40})'")
_CAUSES = (
    ("Connection refused", "connection refused"),
    ("failed to lookup address", "there is no such host"),
    ("dns error", "there is no such host"),
    ("certificate", "its certificate is not trusted"),
    ("operation timed out", "no answer in time"),
    ("kind: Timeout", "no answer in time"),
    ("Network is unreachable", "the network is unreachable"),
    ("Connection reset", "the connection was cut"),
    ("connection closed", "the connection was cut"),
    ("IncompleteMessage", "the connection was cut"),
    ("end of file", "the connection was cut"),
    ("decoding response body", "the connection was cut"),
    ("error sending request", "the connection was cut"),
)
_PASSING_CODES = {
    "ConditionalRequestConflict",
    "SlowDown",
    "RequestTimeout",
    "InternalError",
    "ServiceUnavailable",
    "OperationAborted",
}
_FULL_CODES = {"XMinioStorageFull", "QuotaExceeded", "InsufficientCapacity", "ServiceQuotaExceeded"}
_EXPIRED_CODES = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_REGION_CODES = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}


@dataclass(frozen=True, slots=True)
class Refused:
    """The parts of an answer that mean something."""

    status: int = 0
    code: str = ""
    message: str = ""
    cause: str = ""
    region: str = ""
    machine: bool = False  # it was the machine's own key service that failed

    @property
    def timed_out(self) -> bool:
        return self.cause == "no answer in time"

    @property
    def not_there(self) -> bool:
        return self.status == 404 and self.code in ("", "NoSuchKey", "NotFound")

    @property
    def taken(self) -> bool:
        return self.status == 412 or self.code == "PreconditionFailed"

    @property
    def condition_unknown(self) -> bool:
        """The server does not know `If-None-Match` in a PUT."""
        return self.status == 501 or self.code == "NotImplemented"

    @property
    def checksum_wanted(self) -> bool:
        """A bucket with a default retention takes only what comes with a checksum."""
        said = self.message.lower()
        return self.status == 400 and ("content-md5" in said or "x-amz-checksum" in said)

    @property
    def out_of_range(self) -> bool:
        return self.status == 416 or self.code == "InvalidRange" or self.cause == "not partial"

    @property
    def words(self) -> str:
        text = self.message or self.code or self.cause
        return f"{text} ({self.status})" if self.status and text else text or f"status {self.status}"


def understood(error: BaseException) -> Refused:
    """The parts of what obstore raised."""
    text = str(error)
    status, code, message = _STATUS.search(text), _CODE.search(text), _MESSAGE.search(text)
    region = _REGION.search(text)
    if "NotPartial" in text or "non-partial response" in text:
        cause = "not partial"
    else:
        cause = next((meaning for sign, meaning in _CAUSES if sign in text), "")
    number = int(status[1]) if status else 0
    if not number and isinstance(error, FileNotFoundError):
        number = 404
    return Refused(
        number,
        code[1] if code else "",
        " ".join(message[1].split()) if message else "",
        cause,
        (region[1] or region[2]) if region else "",
        "169.254." in text
        or "latest/api/token" in text
        or "credential" in text.lower().split("debug source")[0],
    )


def explained(place: str, verb: str, answer: Refused) -> SafekeptError:
    """The error that fits."""
    if answer.code == "NoSuchBucket":
        return PlaceMissing(
            f"There is no bucket for `{place}`",
            kept="Nothing was made or changed",
            next_steps=("Make the bucket, or correct the address",),
            place=place,
        )
    if answer.code in _FULL_CODES or answer.status == 507:
        return NoRoom(
            f"There is no room left at `{place}`: {answer.words}",
            kept=WHOLE,
            next_steps=("Make room there, or raise the limit, and run the command again",),
            place=place,
        )
    if answer.code in _EXPIRED_CODES:
        return refused(place, verb, answer.words, "Renew the credential, then run the command again")
    if answer.code == "RequestTimeTooSkewed":
        return refused(place, verb, answer.words, "Set the clock of this machine right, then run it again")
    if answer.code in _REGION_CODES or answer.status == 301:
        step = f"Set `region` to `{answer.region}`" if answer.region else "Set `region` to that of the bucket"
        return refused(place, verb, answer.words, step)
    if answer.status in (0, 408, 429) or answer.status >= 500 or answer.code in _PASSING_CODES:
        return unreachable(place, answer.words if answer.status or answer.cause else "the request failed")
    return refused(place, verb, answer.words)
