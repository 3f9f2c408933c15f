"""The server: its address, its access control, and the lines it prints."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wherefrom.errors import BadOption, MissingExtra
from wherefrom.explorer.limits import Limits
from wherefrom.explorer.loading import Shelf, load_source

if TYPE_CHECKING:
    from wherefrom.model.text_model import TextModel

LOCAL = "127.0.0.1"
PORT = 8421
LONGEST_GOODBYE = 2  # seconds that an open stream is given when the server ends


def check_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import pydantic  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra("The explorer", "explorer") from error


def is_local(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening(host: str, port: int | None) -> socket.socket:
    """A socket that waits at the port; at the usual one unless it is taken, if none is named."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last: OSError | None = None
    for candidate in (port,) if port is not None else (PORT, 0):
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(2048)  # at once: early requests wait instead of being refused
        except (OSError, OverflowError) as error:
            listener.close()
            last = error if isinstance(error, OSError) else OSError(str(error))
        else:
            return listener
    raise BadOption(
        f"The server cannot listen at {host}, port {port or PORT}: {last.strerror or last if last else ''}."
        " Name another with --port or --host."
    )


def closing_unfinished(patience: float) -> type[Any]:
    """uvicorn's protocol, which closes a connection whose request is never finished: it would be kept for ever.
    That of a body is the guard's matter, because a body has an answer.
    """
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class ClosingUnfinished(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        _waits: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is None or self.cycle.response_complete:
                self._wait()
            else:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait(self) -> None:
            if self._waits is None:
                self._waits = self.loop.call_later(patience, self.transport.close)

        def _stop_waiting(self) -> None:
            if self._waits is not None:
                self._waits.cancel()
                self._waits = None

    return ClosingUnfinished


class ExplorerServer:
    """The explorer at an address of this machine.

    sources: what `wherefrom.load` takes; nothing else is ever loaded. runs: folders of runs.
    host: another than this machine's own makes a token part of the address.
    patience: seconds to wait for the page before the models are loaded, which would delay it.
    """

    def __init__(
        self,
        sources: Sequence[Any] = ("embedded",),
        runs: Sequence[Path] = (),
        *,
        host: str = LOCAL,
        port: int | None = None,
        limits: Limits | None = None,
        load: Callable[[Any], TextModel] = load_source,
        patience: float = 0.0,
    ) -> None:
        check_extra()
        try:
            import uvicorn
        except ImportError as error:
            raise MissingExtra("The explorer", "explorer") from error
        from wherefrom.explorer.app import make_app

        self.error: Exception | None = None
        self.token = None if is_local(host) else secrets.token_urlsafe(24)
        self.socket = listening(host, port)
        self.port: int = self.socket.getsockname()[1]
        self.host = f"[{host}]" if ":" in host else host
        self.shelf = Shelf(sources, runs, limits=limits, load=load, failed=self._load_failed, patience=patience)
        names = [self.host, LOCAL, "localhost", "[::1]"]
        hosts = [f"{name}:{self.port}" for name in names] + (names if self.port == 80 else [])
        app = make_app(self.shelf, hosts=None if self.token else hosts, token=self.token)
        self.server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=closing_unfinished(self.shelf.limits.patience),
                log_level="warning",
                access_log=False,
                server_header=False,
                date_header=False,
                ws="none",
                timeout_graceful_shutdown=LONGEST_GOODBYE,
            )
        )

    @property
    def address(self) -> str:
        shown = socket.gethostname() if self.host in ("0.0.0.0", "[::]") else self.host
        return f"http://{shown}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def _load_failed(self, error: Exception) -> None:
        self.error, self.server.should_exit = error, True

    def run(self) -> None:
        """Serve until it is stopped; raises what kept a model from being loaded."""
        self.server.run(sockets=[self.socket])
        if self.error is not None:
            raise self.error

    def start(self) -> threading.Thread:
        """Serve in a thread; returns when requests are answered."""
        thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        thread.start()
        while not self.server.started and thread.is_alive():
            time.sleep(0.01)
        return thread

    def stop(self) -> None:
        self.server.should_exit = True
