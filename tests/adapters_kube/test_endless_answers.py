"""Answers without an end, of a server or a proxy in between: they hold no watch and no memory."""

import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack.adapters import kube
from gpustack.adapters.kube import watch
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
    monkeypatch.setattr(watch, "_LINE_BYTES", LINE_BYTES)
    problem = turn(tmp_path, chunks(200, b"x" * (LINE_BYTES // 3), 4), lambda: 0.0)
    assert problem == f"a change of more than {LINE_BYTES} bytes"


def test_a_watch_of_empty_lines_is_given_up(tmp_path: Path) -> None:
    """Each look at the clock is 10 s after the one before."""
    seconds = itertools.count(1.0, 10.0)
    assert turn(tmp_path, chunks(200, b"\n", 30), seconds.__next__).endswith("no change in 90 s")
