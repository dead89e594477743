"""A registration belongs to one kubelet and to one connection."""

import functools
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from gpustack.adapters.deviceplugin import ContainerResponse, PluginServer
from gpustack.adapters.deviceplugin import deviceplugin_pb2 as plugin_pb
from gpustack.agent.containers.allocation_records import open_records
from gpustack.agent.kubelet import device_ids
from gpustack.agent.kubelet.call_durations import CallDurations
from gpustack.agent.kubelet.plugin import KubeletCalls, ResourcePlugin
from gpustack.agent.kubelet.registrar import Registrar
from tests.agent.health.cards import card_inventory
from tests.agent.host import CORE, KEYS
from tests.fakes.kubelet import FakeKubelet


class _RestartedMeanwhile(FakeKubelet):
    """A kubelet that restarts after the look at its socket: another socket answers."""

    def _register(self, *arguments: Any) -> Any:
        (self.root / "device-plugins" / "kubelet.sock").chmod(0o700)  # as good as a new file
        return super()._register(*arguments)


class _TakesLate(FakeKubelet):
    """A kubelet on a host without CPU time: it has answered, and opens no stream yet."""

    def _register(self, *_: Any) -> Any:
        self.registrations += 1
        return plugin_pb.Empty()


class _AnswerLost(FakeKubelet):
    """A kubelet whose answer comes too late: it has taken the registration."""

    def _register(self, request: Any, context: Any) -> Any:
        super()._register(request, context)
        context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "too late")


class _Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


Start = Callable[..., Registrar]


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Start]:
    """Give a function that serves `vcore.sock` as an agent does, and returns its registrar."""
    servers: list[PluginServer] = []

    def made(clock: _Clock, told: Callable[[], None] = lambda: None) -> Registrar:
        plugin = ResourcePlugin(
            resource=CORE,
            inventory=card_inventory(tmp_path),
            records=open_records(tmp_path / "state"),
            devices=functools.partial(device_ids.core_ids, KEYS),
            calls=KubeletCalls(expect=lambda _: None, allocate=lambda _: ContainerResponse()),
            durations=CallDurations(),
        )
        servers.append(
            PluginServer(plugin=plugin, socket=tmp_path / "device-plugins" / "vcore.sock")
        )
        servers[-1].start()
        return Registrar(
            servers=servers[-1:],
            kubelet_socket=tmp_path / "device-plugins" / "kubelet.sock",
            on_kubelet_restart=told,
            clock=clock,
        )

    yield made
    for server in servers:
        server.stop()


def test_a_kubelet_restarted_just_before_the_registration_is_noticed(
    tmp_path: pathlib.Path, start: Start
) -> None:
    told: list[str] = []
    with _RestartedMeanwhile(tmp_path) as kubelet:
        start(_Clock(), lambda: told.append("another kubelet")).look()
        kubelet.wait_for_plugins(CORE)
    assert len(told) == 2


def test_a_refused_registration_is_made_again_until_it_is_taken(
    tmp_path: pathlib.Path, start: Start
) -> None:
    """An agent is killed and starts again before the kubelet saw its connection end."""
    clock = _Clock()
    with FakeKubelet(tmp_path) as kubelet:
        start(clock).look()
        kubelet.wait_for_plugins(CORE)
        first = kubelet.plugins[CORE]
        registrar = start(clock)
        registrar.look()
        assert kubelet.registrations == 1, "1.37 refuses a socket that is connected"
        first.close()
        clock.now += 1
        registrar.look()
        kubelet.wait_for(lambda: kubelet.registrations == 2)
        kubelet.wait_for_plugins(CORE)
        assert kubelet.plugins[CORE].endpoint == "vcore-2.sock"
        assert registrar.ready
        kubelet.plugins[CORE].close()
        server = kubelet.root / "device-plugins"
        assert [path.name for path in server.glob("vcore*")] == ["vcore-2.sock"]


def test_a_registration_that_was_taken_is_not_made_again_for_ten_seconds(
    tmp_path: pathlib.Path, start: Start
) -> None:
    clock = _Clock()
    with _TakesLate(tmp_path) as kubelet:
        registrar = start(clock)
        for clock.now in (0.0, 1.0, 9.9):
            registrar.look()
        assert kubelet.registrations == 1
        clock.now = 10.0
        registrar.look()
        assert kubelet.registrations == 2


def test_a_plugin_whose_registration_was_answered_too_late_is_ready(
    tmp_path: pathlib.Path, start: Start
) -> None:
    clock = _Clock()
    with _AnswerLost(tmp_path) as kubelet:
        registrar = start(clock)
        registrar.look()
        kubelet.wait_for_plugins(CORE)
        clock.now += 1
        registrar.look()
        assert registrar.ready
        assert kubelet.registrations == 1


class _OverContext:
    """Of a call that had ended before its thread came to it: grpc takes no callback then."""

    def add_callback(self, _: Callable[[], None]) -> bool:
        return False


def test_a_stream_that_is_over_before_it_begins_is_not_counted_on(
    start: Start, tmp_path: pathlib.Path
) -> None:
    """The kubelet hung up at once: the plugin has to be registered again."""
    (tmp_path / "device-plugins").mkdir()
    registrar = start(_Clock())
    server = registrar._endpoints[0].server
    context: Any = _OverContext()
    stream = server._list_and_watch(plugin_pb.Empty(), context)
    reader = threading.Thread(target=lambda: list(stream), daemon=True)
    reader.start()
    reader.join(10)
    assert not reader.is_alive()
    assert (server.streams, server.ended) == (0, 1)
