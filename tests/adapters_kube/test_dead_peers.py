"""An API server whose host is gone says nothing: its kernel doesn't even acknowledge."""

import pathlib
import threading
import time
from collections.abc import Callable

import pytest

from gpustack.adapters import kube
from tests.fakes.kube_api import FakeKubeApi

_PODS = "/api/v1/pods"
_DEAD_SECONDS = 30.0
_FIRST_PROBE_HUNDREDTHS = 1000
_TIME_WAIT = "06"  # no connection, but what the kernel remembers of the port's last user
_KEEPALIVE = "02"  # the kind of timer, Documentation/networking/proc_net_tcp.rst


def _sockets(api: FakeKubeApi, *, ours: bool) -> list[list[str]]:
    """Return the columns of /proc/net/tcp, of our connections to the server or of its to us."""
    port = f":{int(api.url.rsplit(':', 1)[1]):04X}"
    lines = [line.split() for line in pathlib.Path("/proc/self/net/tcp").read_text().splitlines()]
    of_server = [line for line in lines if line[2 if ours else 1].endswith(port)]
    return [line for line in of_server if line[3] != _TIME_WAIT]


def test_every_connection_has_tcp_keepalive(api: FakeKubeApi, client: kube.KubeClient) -> None:
    with client.stream(_PODS, {"watch": "1", "resourceVersion": "0"}, idle_seconds=5.0):
        client.get(_PODS)
        timers = [line[5].split(":") for line in _sockets(api, ours=True)]
    assert [kind for kind, _ in timers] == [_KEEPALIVE] * 2
    assert all(int(due, 16) <= _FIRST_PROBE_HUNDREDTHS for _, due in timers)


@pytest.mark.clock
def test_a_watch_whose_server_is_gone_is_opened_anew(
    api: FakeKubeApi, client: kube.KubeClient
) -> None:
    seen = threading.Event()
    watcher = kube.Watcher(
        client,
        _PODS,
        decode=kube.as_json,
        on_sync=lambda _: None,
        on_event=lambda *_: seen.set(),
        idle_seconds=3600.0,
    )
    watcher.start()
    _wait_for(lambda: _watches(api) == 1 and watcher.last_seen > 0)
    api.hold_watches()
    # Unacknowledged data would be sent again, and the connection would not be silent.
    _wait_for(lambda: all(line[4].startswith("00000000:") for line in _sockets(api, ours=False)))
    began = time.monotonic()
    api.fall_silent()
    api.create("pods", {"metadata": {"name": "p"}})
    _wait_for(lambda: _watches(api) == 2)
    assert time.monotonic() - began < _DEAD_SECONDS
    api.release_watches()
    assert seen.wait(_DEAD_SECONDS)
    watcher.stop()


def _watches(api: FakeKubeApi) -> int:
    return len([each for each in api.asked("GET", "/pods$") if "watch" in each.query])


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 2 * _DEAD_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
