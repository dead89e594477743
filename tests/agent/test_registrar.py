"""A registration belongs to one kubelet: its devices count for that one only."""

import pathlib
from typing import Any

from gpustack.adapters.deviceplugin import ContainerResponse, PluginServer
from gpustack.agent.kubelet import device_ids
from gpustack.agent.kubelet.plugin import ResourcePlugin
from gpustack.agent.kubelet.registrar import Registrar
from gpustack.agent.node.inventory import CardInventory
from tests.agent.host import CORE, KEYS
from tests.fakes.kubelet import FakeKubelet
from tests.fakes.nvml import FakeNvml, card


class _RestartedMeanwhile(FakeKubelet):
    """A kubelet that restarts after the look at its socket: another socket answers."""

    def _register(self, *arguments: Any) -> Any:
        (self.root / "device-plugins" / "kubelet.sock").chmod(0o700)  # as good as a new file
        return super()._register(*arguments)


def test_a_kubelet_restarted_just_before_the_registration_is_noticed(
    tmp_path: pathlib.Path,
) -> None:
    told: list[str] = []
    plugin = ResourcePlugin(
        resource=CORE,
        inventory=CardInventory(nvml=FakeNvml(card(0)), node_name="gpu1", poll_seconds=1),
        devices=lambda node: device_ids.core_ids(KEYS, node),
        allocate=lambda _: ContainerResponse(),
    )
    with _RestartedMeanwhile(tmp_path) as kubelet:
        server = PluginServer(plugin=plugin, socket=tmp_path / "device-plugins" / "vcore.sock")
        server.start()
        registrar = Registrar(
            servers=(server,),
            kubelet_socket=tmp_path / "device-plugins" / "kubelet.sock",
            on_kubelet_restart=lambda: told.append("another kubelet"),
        )
        registrar.look()
        kubelet.wait_for_plugins(CORE)
        server.stop()
    assert len(told) == 2
