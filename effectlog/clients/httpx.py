"""httpx clients that send the operation id of the current effect by themselves.

``EffectKeyAuth`` for clients without a transport of their own, ``EffectKeyTransport`` and
``AsyncEffectKeyTransport`` around any transport, also where ``auth=`` changes per request.

Invariant: a key header that is set already is left alone, and outside an effect nothing changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from effectlog.clients.key_header import key_header

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator


def _add_key(request: httpx.Request, default: str | None) -> None:
    header = key_header(default)
    if header is not None:
        request.headers.setdefault(*header)


class EffectKeyAuth(httpx.Auth):
    """``httpx.Client(auth=EffectKeyAuth())``, synchronous and asynchronous alike.

    Args:
        then: the authentication the client needs besides.
        default_header: header for effects that declare no destination; none is sent without it.

    """

    def __init__(self, then: httpx.Auth | None = None, *, default_header: str | None = None) -> None:
        self._then = then or httpx.Auth()
        self._default = default_header

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        _add_key(request, self._default)
        yield from self._then.sync_auth_flow(request)

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        _add_key(request, self._default)
        flow = self._then.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


class EffectKeyTransport(httpx.BaseTransport):
    """``httpx.Client(transport=EffectKeyTransport())``; wraps ``transport``, or a plain HTTP one."""

    def __init__(
        self, transport: httpx.BaseTransport | None = None, *, default_header: str | None = None
    ) -> None:
        self._transport = transport or httpx.HTTPTransport()
        self._default = default_header

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        _add_key(request, self._default)
        return self._transport.handle_request(request)

    def close(self) -> None:
        self._transport.close()


class AsyncEffectKeyTransport(httpx.AsyncBaseTransport):
    """``httpx.AsyncClient(transport=AsyncEffectKeyTransport())``; see ``EffectKeyTransport``."""

    def __init__(
        self, transport: httpx.AsyncBaseTransport | None = None, *, default_header: str | None = None
    ) -> None:
        self._transport = transport or httpx.AsyncHTTPTransport()
        self._default = default_header

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        _add_key(request, self._default)
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        await self._transport.aclose()
