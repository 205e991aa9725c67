"""A TCP proxy before the server, which can lose messages the way a network does."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Proxy:
    """Forwards to the server of ``url``; what it loses next is said by ``lose``.

    ``"answer"``: a COMMIT reaches the server, its answer never reaches the client, the connection breaks.
    ``"message"``: the COMMIT itself is lost with the connection. ``"late"``: as that, but the COMMIT is
    kept, and reaches the server at ``deliver``.
    """

    def __init__(self, url: str) -> None:
        self._upstream = urlsplit(url)
        self.lose: str | None = None
        self.lost = 0
        self._forgotten = 0
        self._served = 0
        self._late: list[tuple[asyncio.StreamWriter, bytes]] = []
        self._writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """The URL of the proxy."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield urlunsplit(self._upstream._replace(netloc=f"postgres@127.0.0.1:{port}"))
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()

    def forget(self) -> None:
        """Swallow everything on the connections there are, as a firewall that forgot them; new ones work."""
        self._forgotten = self._served

    async def deliver(self) -> None:
        """Let the late COMMITs arrive."""
        for writer, data in self._late:
            writer.write(data)
            await writer.drain()

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        server_in, server_out = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        self._writers += [client_out, server_out]
        self._served += 1
        number = self._served
        doomed = asyncio.Event()
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(
                self._to_server(number, client_in, client_out, server_out, doomed),
                self._to_client(number, server_in, client_out, doomed),
            )

    async def _to_server(
        self,
        number: int,
        client_in: asyncio.StreamReader,
        client_out: asyncio.StreamWriter,
        server_out: asyncio.StreamWriter,
        doomed: asyncio.Event,
    ) -> None:
        kept = False
        while data := await client_in.read(65536):
            if number <= self._forgotten:
                continue
            if self.lose is not None and b"\nCOMMIT" in data:
                how, self.lose = self.lose, None
                self.lost += 1
                doomed.set()
                if how == "answer":
                    server_out.write(data)
                    await server_out.drain()
                    continue
                if how == "late":
                    self._late.append((server_out, data))
                    kept = True
                client_out.transport.abort()
                break
            server_out.write(data)
            await server_out.drain()
        if not kept:
            server_out.close()

    async def _to_client(
        self,
        number: int,
        server_in: asyncio.StreamReader,
        client_out: asyncio.StreamWriter,
        doomed: asyncio.Event,
    ) -> None:
        while data := await server_in.read(65536):
            if number <= self._forgotten:
                continue
            if doomed.is_set():
                client_out.transport.abort()
                return
            client_out.write(data)
            await client_out.drain()
        client_out.close()
