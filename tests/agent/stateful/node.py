"""One GPU node in virtual time: the agent, which can be killed at any of its writes, and its peers.

Kubelet and runtime are on real sockets, files are real. The agent is the product's composition; the
work of its threads is done when the test calls for it.
"""

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

from gpustack.adapters.kube import KubeClient
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.app import Agent
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.settings import AgentSettings
from tests.agent.host import CORE, MEMORY, NODE
from tests.agent.host_files import InstalledFiles
from tests.agent.stateful import virtual_time
from tests.agent.stateful.api import Api
from tests.agent.stateful.kill_points import Killed, KillPoints
from tests.agent.stateful.virtual_time import Clock
from tests.fakes.cri import FakeCri
from tests.fakes.kubelet import ConnectionLost, FakeKubelet
from tests.fakes.nvml import FakeNvml, card

_LOOKS = 1000
_GLANCE_SECONDS = 0.02  # of real time, for grpc's threads
MINORS = (1, 2)  # the UUID of the fake's card 0 is the ledger's word for no card

# What a dead agent's parts leave to the kernel, by their names in it.
_CLOSES: Final[Mapping[str, Callable[[Any], object]]] = {
    "pod_resources": lambda part: part.close(),
    "cri": lambda part: part.close(),
    "folders": lambda part: part.held.close(),
    "host_files": lambda part: part.shared.close(),
    "web": lambda part: part.close(),
    "_instance": lambda part: part.release(),
}


class Node:
    """The node; `agent` is None while none runs."""

    def __init__(self, root: pathlib.Path, patches: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        virtual_time.install(patches, self.clock)
        self.points = KillPoints()
        self.api = Api(self.clock, self.points)
        self.api.on_shown = self.follow
        self.kubelet = FakeKubelet(root / "kubelet")
        self.kubelet.asked, self.kubelet.answered = self._asked, self._answered
        self.cri = FakeCri(root)
        self.nvml = FakeNvml(*map(card, MINORS))
        self.agent: Agent | None = None
        self.starts = 0
        self._files = InstalledFiles(root)
        self._settings = AgentSettings(
            file=root / "agent.yml",
            node_name=NODE,
            domain="tencent.com",
            kubeconfig=root / "kubeconfig",
            kubelet_root=self.kubelet.root,
            cri_endpoint=self.cri.endpoint,
            state_dir=self._files.state,
            run_dir=root / "run",
            mount_socket="",
            log_level="info",
            collect_gpu_time=False,
            on_violation="throttle",
            http_address="127.0.0.1",
            http_port=0,
            http_allowed_hosts=(),
            metrics=None,
            hook_version=self._files.hook.name,
            context_bytes=64 << 20,
            health_poll_seconds=5.0,
            health_probe_seconds=0.0,
            health_ignored_xids=(),
            extra_devices=(),
            place_undecided=False,
            driver_volume_config=None,
            driver_library_path="env",
            node_labels={},
            sample_period_seconds=1.0,
            cri_timeout_seconds=2.0,
            virtual_manager_serve="never",
            virtual_manager_path=root / "vm",
            cdi_enabled=False,
            cdi_spec_dir=root / "cdi",
        )
        self.points.install(patches)
        client = KubeClient(self.api.connection)
        patches.setattr(KubeClient, "from_kubeconfig", lambda *_, **__: client)

    def open(self) -> None:
        self.kubelet.start()
        self.cri.start()

    def close(self) -> None:
        self.bury()
        self.cri.stop()
        self.kubelet.stop()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Name what the node does, as a part of kill points; a dead agent is buried afterwards."""
        outer, self.points.step = self.points.step, self.points.step or name
        try:
            yield
        except Killed:
            pass
        finally:
            self.points.step = outer
            if self.points.dead and not outer:
                self.bury()

    def start_agent(self) -> None:
        """Start one, unless one runs; it may be killed before it has registered."""
        if self.agent is not None:
            return
        self.points.revive()
        self.starts += 1
        with self.step("start"):
            self.agent = Agent.__new__(Agent)  # which may die before it is built
            self.agent.__init__(  # type: ignore[misc]
                self._settings,
                nvml=self.nvml,
                store=DescriptorStore(),
                device_dir=self._files.devices,
                linker_cache=self._files.linker_cache,
            )
            self.follow()
            self.agent.inventory.observe(self.nvml.faults())
            self.agent.recovery.begin()
            for endpoint in self.agent.registrar._endpoints:
                endpoint.server.start()
        self.register()

    def register(self) -> None:
        """Let the agent register with the kubelet where it isn't, and wait for its devices.

        The registrar looks twice a second, and waits until the stream of before is over.
        """
        if self.agent is None:
            return
        registrar, kubelet = self.agent.registrar, self.kubelet
        registrar._clock = self.clock.now
        with self.step("register"):
            registrar.look()
            for _ in range(_LOOKS):
                with kubelet.changed:
                    if kubelet.changed.wait_for(lambda: self.is_registered, _GLANCE_SECONDS):
                        return
                self.clock.advance(0.5)
                registrar.look()
        if self.agent is not None:
            raise AssertionError("the agent does not register")

    def bury(self) -> None:
        """Take the agent's sockets and descriptors away, as the kernel does when it has died."""
        agent, self.agent = self.agent, None
        self.points.revive()
        if agent is None:
            return
        parts = vars(agent)
        for endpoint in parts["registrar"]._endpoints if "registrar" in parts else ():
            if endpoint.server._server is not None:
                endpoint.server.stop()
        for part, close in _CLOSES.items():
            if part in parts:
                close(parts[part])
        for plugin in self.kubelet.plugins.values():
            plugin.close()
        self.kubelet.plugins.clear()

    def kill_agent(self) -> None:
        self.points.kill()
        self.bury()

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet has the devices of both plugins."""
        plugins = self.kubelet.plugins
        return all(name in plugins and plugins[name].lists for name in (CORE, MEMORY))

    def follow(self) -> None:
        """Let the agent's watch see what the API server shows it."""
        if self.agent is not None:
            view: PodView = self.agent.pods
            with self.step("watch"):
                view._watcher.turn()

    def recover(self) -> None:
        """Do a turn of the recovery's thread."""
        if self.agent is not None:
            self.clock.advance(0.001)  # a start of the same moment may be unknown to the runtime
            with self.step("recovery"):
                self.agent.recovery.restore()
                self.agent.recovery.free_ended()

    def audit(self) -> None:
        if self.agent is not None:
            with self.step("audit"):
                self.agent.audit.look()

    def write(self, most: int = 1 << 30) -> None:
        """Send waiting patches; one that isn't answered waits again."""
        if self.agent is None:
            return
        writes = self.agent.writes
        with self.step("writes"):
            for uid in list(writes._patches)[:most]:
                writes._send(uid, writes._patches.pop(uid))

    def observe_cards(self) -> None:
        """Let the agent ask the cards, and the kubelet hear of their health."""
        if self.agent is None:
            return
        self.agent.inventory.observe(self.nvml.faults())
        lost = {fault.uuid for fault in self.nvml.faults()}
        if self.is_registered:
            plugins, left = self.kubelet.plugins, len(MINORS) - len(lost)
            self.kubelet.wait_for(lambda: len(plugins[CORE].healthy()) == 100 * left)
            self.kubelet.wait_for(lambda: len(plugins[MEMORY].healthy()) == 320 * left)

    def _asked(self, resource: str, method: str) -> None:
        self.points.step = f"{method} of {resource.rpartition('/')[2]}"

    def _answered(self, method: str) -> None:
        try:
            self.points.pass_by("before the answer")
        except Killed as error:
            raise ConnectionLost(method) from error
        with contextlib.suppress(Killed):  # the kubelet has the answer
            self.points.pass_by("after the answer")
