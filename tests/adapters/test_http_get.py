"""One bounded GET, from servers that are slow, endless, no HTTP, or gone."""

import itertools
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from gpustack.adapters import http_get
from gpustack.adapters.http_get import HttpAnswer, HttpGetError

_SECONDS = 0.5  # for what takes longer than that
_ENOUGH_SECONDS = 30.0
_OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def server(answer: Callable[[], Iterable[bytes]]) -> Iterator[str]:
    """Answer one connection with these pieces, one each 50 ms, as long as it takes them."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            for piece in answer():
                try:
                    client.sendall(piece)
                except OSError:
                    return
                if over.wait(0.05):
                    return
            client.shutdown(socket.SHUT_WR)
            over.wait(5)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        thread.join()
        listener.close()


def asked(
    url: str, tls: ssl.SSLContext | None = None, *, seconds: float = _ENOUGH_SECONDS
) -> HttpAnswer:
    return http_get.get(url, seconds=seconds, max_bytes=100, tls=tls)


def test_an_answer_of_any_status_is_returned() -> None:
    with server(lambda: [b"HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\nno"]) as address:
        assert asked(f"http://{address}/readyz?a=b") == HttpAnswer(status=503, body=b"no")


@pytest.mark.parametrize(
    "pieces",
    [
        lambda: itertools.repeat(b"x"),
        lambda: [_OK, *itertools.repeat(b"A: b\r\n", 90)],
        lambda: [_OK, b"\r\n", *itertools.repeat(b"x", 90)],
    ],
)
def test_an_answer_that_trickles_is_left_in_time(pieces: Callable[[], Iterable[bytes]]) -> None:
    with server(pieces) as address, pytest.raises(HttpGetError) as caught:
        asked(f"http://{address}/", seconds=_SECONDS)
    assert str(caught.value) == f"http://{address}/: no whole answer within 0.5 s"


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (lambda: [_OK + b"\r\n" + b"x" * 101], "more than 100 bytes"),
        (lambda: [b"SSH-2.0-OpenSSH\r\n"], "SSH-2.0-OpenSSH"),
        (lambda: [_OK + b"Content-Length: 90\r\n\r\nshort"], "ends after 5 of 90 bytes"),
        (lambda: [], "closed connection without response"),
    ],
)
def test_an_answer_that_is_none_is_left_behind(
    pieces: Callable[[], Iterable[bytes]], words: str
) -> None:
    with server(pieces) as address, pytest.raises(HttpGetError, match=words) as caught:
        asked(f"http://{address}/")
    assert str(caught.value).startswith(f"http://{address}/: ")


def test_a_trickled_handshake_of_tls_ends_in_time() -> None:
    # A record of a handshake whose 16 KiB come byte by byte.
    record = [b"\x16\x03\x03\x40\x00", *[b"\x02"] * 90]
    with server(lambda: record) as address, pytest.raises(HttpGetError, match="no whole answer"):
        asked(f"https://{address}/", ssl.create_default_context(), seconds=_SECONDS)


def test_nothing_listens_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(HttpGetError, match="Connection refused"):
        asked(f"http://{address}/")


@pytest.mark.parametrize("url", ["", "ftp://a/", "http:///x", "http://[::1/", "http://a:b/", "a:1"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(HttpGetError):
        asked(url)


def test_a_server_without_tls_is_no_server_of_https() -> None:
    with server(lambda: [b"no TLS at all"]) as address, pytest.raises(HttpGetError, match="SSL"):
        asked(f"https://{address}/", ssl.create_default_context())
