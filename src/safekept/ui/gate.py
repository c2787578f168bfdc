"""What stands before every request: the exact host first, then who asks, then whether a form is ours.

A browser will carry any page's requests to a port of this machine, and a name that an attacker owns may lead
here (DNS rebinding). So nothing is answered that names another host; nothing but the link is answered without
the cookie; and what would change something must come from our own page, by its origin, by what the browser
says of it, and by the token in its form. No page of another origin can frame or read an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .admission import Admission
from .rendering import refusal_page

#: A form of ours is a few hundred bytes, and names at most some hundred paths.
LARGEST_FORM = 1 << 18
#: Where a form lies in the scope, once it is known to be ours.
FORM = "safekept.form"

#: On every answer. No script, style or picture but our own; no frame around it; no type but the one said.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: with that a browser hides the origin of our own forms, too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Gate:
    """Around the whole application."""

    def __init__(self, app: ASGIApp, admission: Admission, heard: Callable[[], None]) -> None:
        self._app, self._admission, self._heard = app, admission, heard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # nothing else is spoken here
        headers = Headers(scope=scope)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in HEADERS.items()
                        if name.lower().encode() not in given
                    ),
                ]
            await send(message)

        refused = self._refused(scope, headers)
        if refused is None and scope["method"] == "POST":
            refused = await self._form(scope, receive, headers)
        if refused is not None:
            await refused(scope, receive, sending)
            return
        self._heard()
        await self._app(scope, receive, sending)

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a caller who may not come in; None for one who may."""
        address = self._admission.address
        if headers.getlist("host") != [address.authority]:
            return refusal_page(421, "This address is not the one that safekept printed.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return refusal_page(405, "The page is read with GET and asked with POST.")
        site = headers.get("sec-fetch-site", "none")
        arriving = headers.get("sec-fetch-mode", "navigate") == "navigate"
        if site not in ("same-origin", "none") and not (arriving and scope["method"] == "GET"):
            return refusal_page(403, "Another page asked for this.")
        if headers.get("sec-fetch-dest", "document") in ("iframe", "frame", "object", "embed"):
            return refusal_page(403, "The page is not shown inside another one.")
        if scope["path"].startswith("/open/") and scope["method"] == "GET":
            return self._open(scope["path"].removeprefix("/open/"), headers)
        known = any(self._admission.knows(one) for one in headers.getlist("cookie"))
        if known or (scope["path"].startswith("/static/") and scope["method"] == "GET"):
            return None
        return refusal_page(403, "This browser has not come in by the link.")

    def _open(self, token: str, headers: Headers) -> Response:
        """The link becomes a cookie. What a browser fetches before a click uses nothing up."""
        if "prefetch" in headers.get("sec-purpose", headers.get("purpose", "")):
            return refusal_page(503, "Not in advance.")
        if not self._admission.enter(token):
            return refusal_page(403, "This link was used, or is older than a minute.")
        # Not a redirect: after one that another page led to, a browser keeps a strict cookie back.
        return refusal_page(
            200, "One moment …", {"Set-Cookie": self._admission.cookie_header, "Refresh": "0; url=/"}
        )

    async def _form(self, scope: Scope, receive: Receive, headers: Headers) -> Response | None:
        """Why a POST is none of ours; None where it is, and then its fields are in the scope."""
        if headers.getlist("origin") != [self._admission.address.origin]:
            return refusal_page(403, "This form was not sent by the page.")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return refusal_page(403, "This form was not sent by the page.")
        if headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
            return refusal_page(415, "Only forms are taken.")
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > LARGEST_FORM:
                return refusal_page(413, "That is more than a form of the page.")
            if message["type"] == "http.disconnect":  # what came of it may name less than was meant
                return refusal_page(400, "The form did not come whole.")
            if not message.get("more_body"):
                break
        fields = parsed(body)
        if not self._admission.is_own_form(scope["path"], fields.get("token", [""])[0]):
            return refusal_page(403, "This form is old: go back, load the page again, and send it once more.")
        scope[FORM] = fields
        return None


def parsed(text: bytes) -> dict[str, list[str]]:
    """The fields of a form or of a query; names of any bytes survive."""
    try:
        pairs = parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=2000,
        )
    except ValueError:  # not ASCII, or too many
        return {}
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found
