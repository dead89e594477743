"""Answers without an end, of a server or a proxy in between: they hold no watch and no memory."""

import itertools
import queue
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpustack.adapters import kube
from gpustack.adapters.kube import exchange, streams
from tests.adapters_kube.following import PODS, WAIT_SECONDS
from tests.adapters_kube.test_exchange import configured, serving

LIST = b'{"metadata": {"resourceVersion": "7"}, "items": []}'
LISTED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(LIST), LIST)
LINE_BYTES = 100_000


def chunks(status: int, data: bytes, count: int) -> list[bytes]:
    """Return the beginning of a chunked answer."""
    piece = b"%x\r\n%s\r\n" % (len(data), data)
    return [b"HTTP/1.1 %d Said\r\nTransfer-Encoding: chunked\r\n\r\n" % status, *[piece] * count]


def turn(folder: Path, answer: list[bytes], clock: Callable[[], float]) -> str:
    """Let a watch get an answer that never ends; returns its problem."""
    with serving([LISTED], answer) as (server, _):
        client = configured(folder, f"http://127.0.0.1:{server.port}")
        watcher = kube.Watcher(
            client, PODS, decode=kube.as_json, on_sync=print, on_event=print, clock=clock
        )
        turning = threading.Thread(target=watcher.turn, daemon=True)
        turning.start()
        turning.join(WAIT_SECONDS)
        assert not turning.is_alive()
        return watcher.problem


def test_an_error_without_an_end_is_an_error(tmp_path: Path) -> None:
    problem = turn(tmp_path, chunks(502, b"<html>" * 10_000, 2), lambda: 0.0)
    assert problem.startswith("API server answered 502 : <html>")


def test_a_change_without_an_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_LINE_BYTES", LINE_BYTES)
    problem = turn(tmp_path, chunks(200, b"x" * (LINE_BYTES // 3), 4), lambda: 0.0)
    assert problem == f"a change of more than {LINE_BYTES} bytes"


def test_a_change_in_tiny_pieces_takes_the_memory_of_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece of two bytes takes fifty as an object of Python's."""
    monkeypatch.setattr(streams, "_LINE_BYTES", LINE_BYTES)
    head, *pieces = chunks(200, b"xy", LINE_BYTES // 2 + 1)
    answer = [head, b"".join(pieces)]
    tracemalloc.start()
    try:
        problem = turn(tmp_path, answer, lambda: 0.0)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert problem == f"a change of more than {LINE_BYTES} bytes"
    assert peak_bytes < 12 * LINE_BYTES


def test_a_watch_of_empty_lines_is_given_up(tmp_path: Path) -> None:
    """Each look at the clock is 10 s after the one before."""
    seconds = itertools.count(1.0, 10.0)
    assert turn(tmp_path, chunks(200, b"\n", 30), seconds.__next__).endswith("no change in 90 s")


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("method", ["GET", "PATCH", "POST"])
def test_an_answer_without_an_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, proxied: bool
) -> None:
    monkeypatch.setattr(exchange, "_ANSWER_BYTES", LINE_BYTES)
    with serving(chunks(200, b"x" * (LINE_BYTES // 3), 4)) as (server, _):
        client = through(tmp_path, server.port, proxied=proxied)
        calls = {
            "GET": lambda: client.get(PODS),
            "PATCH": lambda: client.patch(PODS, {}),
            "POST": lambda: client.post(PODS, {}),
        }
        with pytest.raises(kube.KubeUnavailable, match=f"of more than {LINE_BYTES} bytes"):
            calls[method]()


@pytest.mark.parametrize("proxied", [False, True])
def test_an_answer_that_drips_has_the_time_of_any(tmp_path: Path, proxied: bool) -> None:
    stop = threading.Event()

    def drops() -> Iterator[bytes]:
        yield from chunks(200, b"{", 1)
        while not stop.wait(0.05):
            yield b"1\r\n \r\n"

    with serving(drops()) as (server, _):  # type: ignore[arg-type]
        client = through(tmp_path, server.port, proxied=proxied)
        said: queue.Queue[str] = queue.Queue()

        def ask() -> None:
            try:
                client.get(PODS, timeout_seconds=0.5)
            except kube.KubeUnavailable as error:
                said.put(str(error))

        threading.Thread(target=ask, daemon=True).start()
        try:
            assert "timed out" in said.get(timeout=WAIT_SECONDS)
        finally:
            stop.set()


@pytest.mark.parametrize("form", ["Transfer-Encoding: chunked", "Connection: close"])
@pytest.mark.parametrize("proxied", [False, True])
def test_a_change_is_told_when_it_comes(tmp_path: Path, form: str, proxied: bool) -> None:
    """A watch that isn't chunked ends with its connection, as through a proxy of HTTP/1.0."""
    line = b'{"type": "ADDED", "object": {"metadata": {"resourceVersion": "8"}}}\n'
    chunk = b"%x\r\n%s\r\n" % (len(line), line)
    head = b"HTTP/1.1 200 OK\r\n%s\r\n\r\n" % form.encode()
    told: queue.Queue[str] = queue.Queue()
    with serving([LISTED], [head, chunk if "chunked" in form else line]) as (server, _):
        client = through(tmp_path, server.port, proxied=proxied)
        watcher = kube.Watcher(
            client,
            PODS,
            decode=kube.as_json,
            on_sync=print,
            on_event=lambda *event: told.put(event[0]),
        )
        watcher.start()
        try:
            assert told.get(timeout=WAIT_SECONDS) == "ADDED"
        finally:
            watcher.stop()


def through(folder: Path, port: int, *, proxied: bool) -> kube.KubeClient:
    """Return a client of a server, or of another one by way of it."""
    url = f"http://127.0.0.1:{port}"
    proxy = {"proxy-url": url} if proxied else {}
    return configured(folder, "http://api.example.org" if proxied else url, **proxy)
