"""Danger: a request that may have arrived is taken for one that was never sent."""

from __future__ import annotations

import smtplib
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import requests
from requests.adapters import HTTPAdapter
from support import peers

from effectlog.clients.failures import (
    NOT_SENT,
    NOT_SENT_HTTPX,
    NOT_SENT_REQUESTS,
    NOT_SENT_SMTP,
    NOT_SENT_SOCKET,
    REFUSED_SMTP,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NO_SUCH_HOST = "http://no-such-host.invalid"


def raised(call: Callable[[], Any]) -> BaseException:
    """What the call raises; its failure to raise is a failure of the test."""
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def by_httpx(url: str) -> Any:
    with httpx.Client(timeout=0.15, trust_env=False) as client:
        return client.post(url, json={})


async def by_async_httpx(url: str) -> Any:
    async with httpx.AsyncClient(timeout=0.15, trust_env=False) as client:
        return await client.post(url, json={})


def by_requests(url: str) -> Any:
    with requests.Session() as session:
        session.trust_env = False
        return session.post(url, json={}, timeout=0.15)


def by_urllib(url: str) -> Any:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(url, data=b"{}", timeout=0.15)


CLIENTS = [(by_httpx, NOT_SENT_HTTPX), (by_requests, NOT_SENT_REQUESTS), (by_urllib, NOT_SENT_SOCKET)]


@contextmanager
def nowhere() -> Iterator[None]:
    yield None


@pytest.mark.parametrize(("client", "group"), CLIENTS)
@pytest.mark.parametrize("peer", [peers.refusing, nowhere])
def test_a_refused_or_nameless_host_was_not_reached(
    client: Callable[[str], Any], group: type[Exception], peer: Callable[[], Any]
) -> None:
    with peer() as port:
        error = raised(lambda: client(f"http://127.0.0.1:{port}" if port else NO_SUCH_HOST))
    assert isinstance(error, group), repr(error)
    assert isinstance(error, (KeyError, NOT_SENT)), "a group works inside a tuple"


@pytest.mark.parametrize(("client", "group"), CLIENTS)
@pytest.mark.parametrize("peer", [peers.silent, peers.resetting])
def test_a_request_that_left_is_in_no_group(
    client: Callable[[str], Any], group: type[Exception], peer: Callable[[], Any]
) -> None:
    with peer() as port:
        error = raised(lambda: client(f"http://127.0.0.1:{port}"))
    assert not isinstance(error, group), repr(error)
    assert not isinstance(error, NOT_SENT)


@pytest.mark.parametrize(("client", "group"), CLIENTS[:2])
def test_a_connect_that_timed_out_was_not_reached(
    client: Callable[[str], Any], group: type[Exception]
) -> None:
    with peers.overfull() as port:
        error = raised(lambda: client(f"http://127.0.0.1:{port}"))
    assert "Timeout" in type(error).__name__
    assert isinstance(error, group), repr(error)


async def test_an_asynchronous_client_raises_into_the_same_groups() -> None:
    with peers.refusing() as port, pytest.raises(httpx.ConnectError) as refused:
        await by_async_httpx(f"http://127.0.0.1:{port}")
    assert isinstance(refused.value, NOT_SENT_HTTPX)
    with peers.silent() as port, pytest.raises(httpx.ReadTimeout) as silent:
        await by_async_httpx(f"http://127.0.0.1:{port}")
    assert not isinstance(silent.value, NOT_SENT)


def test_waiting_for_a_free_connection_is_not_sending() -> None:
    limits, timeout = httpx.Limits(max_connections=1), httpx.Timeout(5.0, pool=0.05)
    with (
        peers.answering(200, {}) as (url, received),
        httpx.Client(limits=limits, timeout=timeout, trust_env=False) as client,
        client.stream("GET", url),  # holds the one connection until its body is read
    ):
        error = raised(lambda: client.post(url))
    assert isinstance(error, httpx.PoolTimeout)
    assert isinstance(error, NOT_SENT_HTTPX)
    assert len(received) == 1


def test_a_request_without_a_usable_address_was_not_sent() -> None:
    for address in ("nothing://x", "http://"):
        assert isinstance(raised(lambda address=address: by_httpx(address)), NOT_SENT_HTTPX)
        assert isinstance(raised(lambda address=address: by_requests(address)), NOT_SENT_REQUESTS)


def send_mail(port: int) -> None:
    message = EmailMessage()
    message["From"], message["To"] = "shop@example.org", "you@example.org"
    message.set_content("thanks")
    with smtplib.SMTP("127.0.0.1", port, timeout=1, local_hostname="localhost") as server:
        server.send_message(message)


@pytest.mark.parametrize(
    ("replies", "not_sent", "for_good"),
    [
        ({"greeting": "554 go away"}, True, False),
        ({"ehlo": "550 no", "helo": "550 no"}, True, False),
        ({"mail": "550 not you"}, True, True),
        ({"mail": "450 not now"}, True, False),
        ({"rcpt": "550 nobody"}, True, True),
        ({"rcpt": "451 greylisted"}, True, False),
        ({"data": "554 no"}, True, True),
        ({"end": "554 spam"}, True, True),
        ({"end": "451 try later"}, True, False),
        ({"end": ""}, False, False),
        ({"rcpt": ""}, False, False),
        ({"greeting": ""}, False, False),
        ({"quit": "550 no"}, False, False),  # the mail itself was accepted
    ],
)
def test_a_mail_that_the_server_refused_was_not_sent(
    replies: dict[str, str], not_sent: bool, for_good: bool
) -> None:
    with peers.smtp(**replies) as port:
        error = raised(lambda: send_mail(port))
    assert isinstance(error, NOT_SENT_SMTP) is not_sent, repr(error)
    assert isinstance(error, REFUSED_SMTP) is for_good, repr(error)


def test_an_accepted_mail_raises_nothing_and_an_unreached_server_was_not_sent_to() -> None:
    with peers.smtp() as port:
        send_mail(port)
    with peers.refusing() as port:
        assert isinstance(raised(lambda: send_mail(port)), NOT_SENT_SMTP)


def test_a_group_goes_by_package_and_base_classes() -> None:
    class Mine(httpx.ConnectError):
        pass

    class ConnectError(Exception):
        """Same name, another package."""

    assert isinstance(Mine("x"), (KeyError, NOT_SENT_HTTPX))
    assert issubclass(Mine, NOT_SENT_HTTPX)
    assert not isinstance(ConnectError("x"), NOT_SENT_HTTPX)
    assert not issubclass(Exception, NOT_SENT_HTTPX)
    assert not isinstance("httpx.ConnectError", NOT_SENT)


def test_a_group_is_an_exception_class_that_nobody_can_raise() -> None:
    assert issubclass(NOT_SENT_HTTPX, Exception)
    assert issubclass(NOT_SENT_HTTPX, NOT_SENT_HTTPX)
    with pytest.raises(TypeError, match="NOT_SENT_HTTPX is a group"):
        raise NOT_SENT_HTTPX("no")
    with pytest.raises(ZeroDivisionError):
        try:
            1 / 0  # noqa: B018 - raises
        except NOT_SENT_HTTPX:
            pytest.fail("caught by a group it is not in")


def test_retries_of_requests_after_a_read_error_are_seen_as_lost_answers() -> None:
    retry = requests.adapters.Retry(total=1, allowed_methods=None, backoff_factor=0)
    with peers.resetting() as port, requests.Session() as session:
        session.trust_env = False
        session.mount("http://", HTTPAdapter(max_retries=retry))
        error = raised(lambda: session.post(f"http://127.0.0.1:{port}", timeout=1))
    assert not isinstance(error, NOT_SENT_REQUESTS), repr(error)


def test_contracts_and_groups_load_no_client_library() -> None:
    script = (
        "import sys, effectlog.destinations;"
        "from effectlog.clients import failures, stripe, smtp;"
        "print(sorted({'httpx', 'requests', 'aiohttp', 'stripe', 'botocore'} & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"
