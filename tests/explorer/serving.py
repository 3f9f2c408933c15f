"""A server on a free port for the tests, and how they ask it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from tiny_models import make_model

from wherefrom.explorer.limits import Limits
from wherefrom.explorer.serve import ExplorerServer
from wherefrom.model.text_model import TextModel

TEXT = "the film was not bad, but the plot was dull and very long."
LONG = 120  # seconds that anything may take on a slow machine


@contextmanager
def serving(*models: TextModel, limits: Limits | None = None, **more: Any) -> Iterator[ExplorerServer]:
    """A server with these models in memory; with a tiny BERT if none are given."""
    server = ExplorerServer(
        models or (make_model("bert"),), port=more.pop("port", 0), limits=limits, load=lambda model: model, **more
    )
    thread = server.start()
    try:
        assert server.shelf.ready.wait(LONG)
        yield server
    finally:
        server.stop()
        thread.join(LONG)
        assert not thread.is_alive()


class Client:
    """Asks a server as its page does."""

    def __init__(self, server: ExplorerServer, **headers: str) -> None:
        self.http = httpx.Client(base_url=server.address.partition("?")[0], timeout=LONG, headers=headers)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def ask(self, path: str, *, status: int = 200, **question: Any) -> Any:
        found = self.http.post(f"/api/{path}", json={"text": TEXT} | question)
        assert found.status_code == status, found.text
        return found.json()

    def stream(self, path: str, **question: Any) -> list[dict[str, Any]]:
        found = self.http.post(f"/api/{path}", json={"text": TEXT} | question)
        assert found.status_code == 200, found.text
        return [json.loads(line) for line in found.text.splitlines()]
