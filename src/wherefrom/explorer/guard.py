"""Access control: only the page that the server itself served may use it.

A page of another site in the same browser can send requests to 127.0.0.1, and by rebinding a name even read answers. So
the Host must be one of ours, the Origin (where there is one) must be that Host, and with a token every request for data
must carry it. A body is read here, as far as it may be long and may take time, before the application sees the request.
"""

from __future__ import annotations

import asyncio
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


FORGOTTEN = 8_000_000  # bytes of a body that is too large


class _Refused(Exception):
    """A request that the application must not see: the status and the reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass(frozen=True)
class Guard:
    """ASGI middleware that rejects requests the application must not see."""

    app: AsgiApp
    hosts: Sequence[str] | None  # as a browser writes them; None where the token alone decides
    token: str | None
    most_bytes: int
    patience: float  # seconds in which a body must have arrived

    async def __call__(self, scope: Message, receive: Receive, send: SendMessage) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        arrived = time.perf_counter()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                security = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                took = f"server;dur={1000 * (time.perf_counter() - arrived):.1f}"  # milliseconds, for whoever measures
                timing = (b"server-timing", took.encode())
                message = {**message, "headers": [*message.get("headers", []), *security, timing]}
            await send(message)

        try:
            self._check(scope)
            body = await asyncio.wait_for(self._body(receive), self.patience) if scope["method"] == "POST" else b""
        except _Refused as refused:
            await _answer(sending, refused.status, refused.why)
        except TimeoutError:
            await _answer(sending, 408, f"The rest of the request did not arrive within {self.patience:g} seconds.")
        else:
            if body is not None:
                await self.app(scope, _replayed(body, receive), sending)

    async def _body(self, receive: Receive) -> bytes | None:
        """All of the body; None where whoever sent it has left. What is too long is read on for a while, and forgotten:
        whoever is still sending would not see the answer.
        """
        parts, size = list[bytes](), 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body: bytes = message.get("body", b"")
            size += len(body)
            parts = [*parts, body] if size <= self.most_bytes else []
            if not message.get("more_body", False) or size > self.most_bytes + FORGOTTEN:
                break
        if size > self.most_bytes:
            raise self._too_large()
        return b"".join(parts)

    def _too_large(self) -> _Refused:
        return _Refused(413, f"A request may have {self.most_bytes:,} bytes.")

    def _check(self, scope: Message) -> None:
        """Raise on what must not pass."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        host = headers.get("host", [])
        if len(host) != 1 or (self.hosts is not None and host[0].lower() not in self.hosts):
            raise _Refused(403, "This server is asked by another name than its own. Open the address that it printed.")
        origin = headers.get("origin", [])
        if origin and (len(origin) != 1 or origin[0].lower() not in (f"http://{host[0].lower()}",)):
            raise _Refused(403, "This request comes from a page of another site.")
        if headers.get("sec-fetch-site", ["none"])[0] not in ("same-origin", "none"):
            raise _Refused(403, "This request comes from a page of another site.")
        path = str(scope["path"])
        if scope["method"] == "POST":
            if not headers.get("content-type", [""])[0].startswith("application/json"):
                raise _Refused(415, "A request is JSON.")
            length = headers.get("content-length", ["0"])[0]
            if not length.isdecimal() or len(length) > 15 or int(length) > self.most_bytes + FORGOTTEN:
                raise self._too_large()
        if self.token is not None and path.startswith("/api/"):
            token = headers.get("x-wherefrom-token", [""])[0]
            if not hmac.compare_digest(token.encode(), self.token.encode()):
                raise _Refused(
                    401, "The address lacks the token, or has another. Open the address that the server printed."
                )


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already, then what is received after it: that the reader has left."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


async def _answer(send: SendMessage, status: int, why: str) -> None:
    body = json.dumps({"error": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")]  # what is left of the request is not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
