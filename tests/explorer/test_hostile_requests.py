"""Whatever is sent to the server: an answer of status 4xx in one form, never a traceback or an endless connection."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tiny_models import make_model

from explorer.serving import LONG, TEXT, Client, serving
from wherefrom.explorer.limits import Limits
from wherefrom.explorer.serve import ExplorerServer

PATHS = ("read", "hide", "explain", "curve", "page", "code", "inside", "heads", "generate")
DEEP, DIGITS, NO_TEXT = "[" * 100_000, "9" * 5000, "\\ud800"
BODIES: dict[str, bytes] = {
    "no JSON": b"{",
    "nothing": b"",
    "another type": b"[1, 2]",
    "deep": ('{"text": "a", "hidden": ' + DEEP).encode(),
    "deep and closed": ('{"text": "a", "hidden": ' + "[" * 50_000 + "]" * 50_000 + "}").encode(),
    "digits": ('{"text": "a", "hidden": [' + DIGITS + "]}").encode(),
    "digits as the model": ('{"text": "a", "model": ' + DIGITS + "}").encode(),
    "large number": b'{"text": "a", "hidden": [1e400], "target": 1e400}',
    "NaN": b'{"text": "a", "hidden": [NaN], "model": NaN}',
    "no UTF-8": b'{"text": "\xff\xfe"}',
    "half of a character": ('{"text": "a ' + NO_TEXT + '"}').encode(),
    "half of a name": ('{"text": "a", "' + NO_TEXT + '": 1}').encode(),
    "half of a target": ('{"text": "a film", "target": "' + NO_TEXT + '", "methods": ["' + NO_TEXT + '"]}').encode(),
    "control characters": b'{"text": "\\u0000\\u0001"}',
}


@pytest.fixture(scope="module", params=["classification", "causal_lm"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    family = "gpt2" if request.param == "causal_lm" else "bert"
    with serving(make_model(family, task=request.param)) as running, Client(running) as asking:
        yield asking


def post(client: Client, path: str, body: bytes) -> httpx.Response:
    return client.http.post(f"/api/{path}", content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize("body", BODIES)
def test_bodies_that_are_no_request(client: Client, body: str) -> None:
    for path in PATHS:
        found = post(client, path, BODIES[body])
        if found.status_code == 200:  # an error in a stream that has begun
            lines = [json.loads(line) for line in found.text.splitlines()]
            assert lines[-1].keys() == {"error"}, (path, lines)
            assert "inside of Wherefrom" not in lines[-1]["error"], path
            continue
        assert 400 <= found.status_code < 500, (path, found.text)
        assert found.json().keys() == {"error"}
        assert found.json()["error"]


# What a request may have beside its text, all of it wrong somewhere.
WRONG: list[dict[str, Any]] = [
    {"hidden": [99_999], "methods": []},
    {"hidden": [3] * 3000, "methods": []},
    {"replaced": {"99999": "x"}, "methods": []},
    {"replaced": {"0": ""}, "hidden": [99], "methods": []},
    {"target": "no such label"},
    {"target": 9_999_999},
    {"target": DIGITS[:400]},
    {"target": "LABEL_0", "versus": "no such label"},
    {"off": [[99_999, 0]]},
    {"off": [[0, 99_999]]},
    {"methods": ["no_such_method"]},
    {"methods": ["attcat:nothing=1"]},
    {"methods": ["integrated_gradients:steps=1e308"]},
    {"methods": ["lime:samples=-1"]},
    {"method": "attcat:"},
    {"count": 10**9},
    {"count": 0},
    {"model": 99},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_fields_that_are_wrong(client: Client, wrong: dict[str, Any]) -> None:
    for path in PATHS:
        needed: dict[str, Any] = {"text": TEXT}
        if path in ("explain", "page", "code"):
            needed["methods"] = ["random"]
        if path == "curve":
            needed["method"] = "random"
        found = post(client, path, json.dumps(needed | wrong).encode())
        assert found.status_code == 200 or 400 <= found.status_code < 500, (path, found.text)
        assert "inside of Wherefrom" not in found.text, (path, found.text)
        if found.status_code != 200:
            assert found.json().keys() == {"error"}


def test_a_head_that_the_model_does_not_have(client: Client) -> None:
    found = post(client, "heads", json.dumps({"text": TEXT, "off": [[0, 7]]}).encode())
    assert (found.status_code, found.json()) == (400, {"error": "Layer 1 has 4 heads; there is no head 8."})


@pytest.mark.parametrize("path", ["/nothing", "/api/nothing", "/api/read/more", "/a/b/c", "/api/", "/%00", "/..%2f.."])
def test_unknown_addresses_have_the_form_of_all_errors(client: Client, path: str) -> None:
    for method in ("GET", "POST"):
        found = client.http.request(method, path, json={} if method == "POST" else None)
        assert found.status_code in (404, 405)
        assert found.json().keys() == {"error"}
        if found.status_code == 404:
            assert found.json() == {"error": "There is nothing at this address."}
    found = client.http.get("/api/read")
    assert (found.status_code, found.json()) == (405, {"error": "Method Not Allowed"})
    found = client.http.get("/api/runs/" + DIGITS)
    assert 400 <= found.status_code < 500
    assert found.json().keys() == {"error"}


@pytest.fixture(scope="module")
def impatient() -> Iterator[ExplorerServer]:
    with serving(limits=Limits(patience=3.0)) as running:
        yield running


def exchanged(server: ExplorerServer, *sent: bytes) -> bytes:
    """All that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as asking:
        host = f"127.0.0.1:{server.port}".encode()
        for part in sent:
            asking.sendall(part.replace(b"HOST", host))
        found = b""
        while more := asking.recv(65536):
            found += more
        return found


HEAD = b"POST /api/read HTTP/1.1\r\nhost: HOST\r\ncontent-type: application/json\r\n"


def test_a_large_body_in_chunks_is_refused() -> None:
    with serving(limits=Limits(body=6000, patience=LONG)) as running:
        check_large_bodies(running)


def check_large_bodies(server: ExplorerServer) -> None:
    for count in (10, 1000):  # the second is more than the sockets of both sides take
        chunks = [b"%x\r\n%s\r\n" % (5000, b"a" * 5000)] * count
        found = exchanged(server, HEAD + b"transfer-encoding: chunked\r\n\r\n", *chunks, b"0\r\n\r\n")
        assert found.startswith(b"HTTP/1.1 413 ")
        assert b'{"error": "A request may have 6,000 bytes."}' in found
    found = exchanged(server, HEAD + b"content-length: 5000000\r\n\r\n", b"a" * 5_000_000)
    assert found.startswith(b"HTTP/1.1 413 ")
    for length in (b"9" * 5000, b"-1", b"1e3"):
        found = exchanged(server, HEAD + b"content-length: " + length + b"\r\n\r\n{}")
        assert found.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 "))


def test_requests_that_do_not_end_are_ended(impatient: ExplorerServer) -> None:
    """Not one of them would otherwise ever be answered or closed."""
    found = exchanged(impatient, HEAD + b'content-length: 100\r\n\r\n{"text": "a')
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b'"error"' in found
    for unfinished in (b"", b"POST /api", HEAD, b"GET / HTTP/1.1\r\nhost: HOST\r\n\r\nGET /ap"):
        assert b"HTTP/1.1 500" not in exchanged(impatient, unfinished)
    with Client(impatient) as asking:  # and others are answered as before
        assert asking.ask("read")["target"]


def test_many_unfinished_requests_keep_nobody_from_asking(impatient: ExplorerServer) -> None:
    waiting = [socket.create_connection(("127.0.0.1", impatient.port), timeout=LONG) for _ in range(100)]
    try:
        for one in waiting:
            one.sendall(b"POST /api/read HTTP/1.1\r\n")
        with Client(impatient) as asking:
            assert asking.ask("read")["target"]
        assert all(one.recv(1) == b"" for one in waiting)
    finally:
        for one in waiting:
            one.close()
