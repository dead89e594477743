"""What a call held is freed with it, also where it fails: bodies and lists are megabytes.

Python counts references. Where an error and what it came through refer to each other, all of it
stays until the next look for garbage, which a busy process may take minutes to begin.
"""

import contextlib
import gc
import logging
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpustack.adapters import kube
from gpustack.adapters.kube import watch
from tests.adapters_kube.following import PODS, WAIT_SECONDS, create_many
from tests.adapters_kube.test_exchange import configured, serving
from tests.fakes.kube_api import FakeKubeApi

BINDING = "/api/v1/namespaces/default/pods/none/binding"


class Body(dict[str, Any]):
    """A body of a request that can be referred to weakly."""


class Item:
    """An object of a list."""


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def post(client: kube.KubeClient, body: Body) -> None:
    with contextlib.suppress(kube.KubeError, kube.KubeUnavailable):
        client.post(BINDING, body)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda api: None,
        lambda api: api.faults.fail("POST", "/binding$", status=503),
        lambda api: api.faults.drop("POST", "/binding$"),
        lambda api: api.faults.drop("POST", "/binding$", when="after"),
    ],
    ids=["unknown", "error", "unsent", "unanswered"],
)
def test_a_call_that_fails_keeps_no_body(
    api: FakeKubeApi, client: kube.KubeClient, spoil: Callable[[FakeKubeApi], object]
) -> None:
    spoil(api)
    body = Body(metadata={"name": "none"})
    kept = weakref.ref(body)
    post(client, body)
    del body
    assert kept() is None


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<html",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\n\r\n<html",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<htm",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
        b"nonsense",
        b"",
    ],
)
def test_a_proxys_nonsense_keeps_no_body(tmp_path: Path, answer: bytes) -> None:
    with serving([answer], closes=True) as (server, _):
        client = configured(tmp_path, f"http://127.0.0.1:{server.port}")
        body = Body(metadata={"name": "none"})
        kept = weakref.ref(body)
        post(client, body)
        del body
        assert kept() is None


def test_a_list_that_breaks_off_keeps_no_objects(
    api: FakeKubeApi,
    client: kube.KubeClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The second or third page is refused while the first one is decoded."""
    caplog.set_level(logging.CRITICAL)  # pytest keeps the errors that are logged
    monkeypatch.setattr(watch, "MOST_ITEMS", 10)
    create_many(api, 30)
    kept: list[weakref.ref[Item]] = []

    def decode(_raw: msgspec.Raw) -> Item:
        if not kept:
            api.faults.fail("GET", "/pods$", status=503)
        item = Item()
        kept.append(weakref.ref(item))
        return item

    watcher = kube.Watcher(client, PODS, decode=decode, on_sync=print, on_event=print)
    watcher.turn()
    assert watcher.problem
    assert kept
    assert not any(item() for item in kept)


def test_a_list_that_takes_too_long_is_asked_for_in_smaller_pages(
    api: FakeKubeApi, tmp_path: Path
) -> None:
    """A server before 1.33 makes a page as a whole: one of a thousand large pods comes too late."""
    kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
    client = kube.KubeClient.from_kubeconfig(kubeconfig, timeout_seconds=0.2)
    api.faults.hold("GET", "/pods$", times=2)
    watcher = kube.Watcher(client, PODS, decode=kube.as_json, on_sync=print, on_event=print)
    watcher.turn()
    watcher.turn()
    assert "timed out" in watcher.problem
    watcher.start()
    assert watcher.synced.wait(WAIT_SECONDS)
    watcher.stop()
    lists = [r.query["limit"] for r in api.asked("GET", "/pods$") if "watch" not in r.query]
    assert lists == ["1000", "250", "62"]
