"""Access control: only the page that the server itself served may use it.

A page of another site in the same browser can send requests to 127.0.0.1, and by rebinding a name even read answers. So
the Host must be one of ours, the Origin (where there is one) must be that Host, and with a token every request for data
must carry it. The size of a body is counted while it arrives.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
SendMessage = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Message, Receive, SendMessage], Awaitable[None]]

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class BodyTooLarge(Exception):
    """The request is larger than allowed."""


@dataclass(frozen=True)
class Guard:
    """ASGI middleware that rejects requests the application must not see."""

    app: AsgiApp
    hosts: Sequence[str] | None  # as a browser writes them; None where the token alone decides
    token: str | None
    most_bytes: int

    async def __call__(self, scope: Message, receive: Receive, send: SendMessage) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        started, arrived = False, time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                security = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                took = f"server;dur={1000 * (time.perf_counter() - arrived):.1f}"  # milliseconds, for whoever measures
                timing = (b"server-timing", took.encode())
                message = {**message, "headers": [*message.get("headers", []), *security, timing]}
            await send(message)

        refused = self._refused(scope)
        if refused is not None:
            await _answer(sending, *refused)
            return
        try:
            await self.app(scope, self._counted(receive), sending)
        except BodyTooLarge:
            if not started:
                await _answer(sending, 413, f"A request may have {self.most_bytes:,} bytes.")

    def _refused(self, scope: Message) -> tuple[int, str] | None:
        """The status and the reason; None for what may pass."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host = headers.get("host", [])
        if len(host) != 1 or (self.hosts is not None and host[0].lower() not in self.hosts):
            return 403, "This server is asked by another name than its own. Open the address that it printed."
        origin = headers.get("origin", [])
        if origin and (len(origin) != 1 or origin[0].lower() not in (f"http://{host[0].lower()}",)):
            return 403, "This request comes from a page of another site."
        if headers.get("sec-fetch-site", ["none"])[0] not in ("same-origin", "none"):
            return 403, "This request comes from a page of another site."
        path = str(scope["path"])
        if scope["method"] == "POST":
            if not headers.get("content-type", [""])[0].startswith("application/json"):
                return 415, "A request is JSON."
            length = headers.get("content-length", ["0"])[0]
            if not length.isdigit() or int(length) > self.most_bytes:
                return 413, f"A request may have {self.most_bytes:,} bytes."
        if self.token is not None and path.startswith("/api/"):
            token = headers.get("x-wherefrom-token", [""])[0]
            if not hmac.compare_digest(token.encode(), self.token.encode()):
                return 401, "The address lacks the token, or has another. Open the address that the server printed."
        return None

    def _counted(self, receive: Receive) -> Receive:
        received = 0

        async def counting() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.most_bytes:
                raise BodyTooLarge
            return message

        return counting


async def _answer(send: SendMessage, status: int, why: str) -> None:
    body = json.dumps({"error": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
