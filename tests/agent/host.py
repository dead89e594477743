"""One GPU host around the agent: its neighbours on real sockets, its cards in memory."""

import copy
import json
import pathlib
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from gpustack.adapters.systemd import DescriptorStore, Notifier
from gpustack.agent import settings
from gpustack.agent.app import Agent
from gpustack.agent.kernel_files import KernelFiles
from gpustack.model.placement import ContainerPlacement, Placement
from gpustack.model.request import ContainerKind
from gpustack.wire.annotations import encode_decision
from gpustack.wire.keys import Keys
from gpustack.wire.pods import finished
from tests.agent.host_files import InstalledFiles
from tests.fakes.cri import FakeCri
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.kubelet import FakeKubelet
from tests.fakes.nvml import FakeNvml, card

NODE = "gpu1"
KEYS = Keys()
STATIC_UID = "0123456789abcdef0123456789abcdef"  # a config.hash
CORE, MEMORY = KEYS.vcuda_core, KEYS.vcuda_memory

_SECONDS = 10.0  # after this long a test counts as hung

Pod = dict[str, Any]


def container(name: str, cores: int = 0, memory: int = 0, **fields: Any) -> dict[str, Any]:
    limits = {CORE: str(cores), MEMORY: str(memory)}
    asked = {name: amount for name, amount in limits.items() if amount != "0"}
    return {"name": name, "image": "busybox", "resources": {"limits": asked}, **fields}


def make_pod(
    name: str,
    *containers: Mapping[str, Any],
    init: tuple[Mapping[str, Any], ...] = (),
    annotations: Mapping[str, str] | None = None,
) -> Pod:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "nodeName": NODE,
            "containers": list(containers),
            "initContainers": list(init),
        },
        "status": {"phase": "Pending"},
    }


def decision(*cards: tuple[int, ...], cores: int, memory: int, now_ns: int = 1) -> dict[str, str]:
    """Return the extender's annotations for containers 0.. that get these minors."""
    placed = tuple(
        ContainerPlacement(
            name=f"c{index}",
            kind=ContainerKind.APP,
            index=index,
            minors=minors,
            uuids=tuple(card(minor).uuid for minor in minors),
            cores=cores,
            memory_units=memory,
        )
        for index, minors in enumerate(cards)
    )
    return encode_decision(KEYS, Placement(node=NODE, containers=placed), now_ns)


def card_of(answer: Any) -> str:
    """Return the first device node of an answer to Allocate."""
    return str(answer.devices[0].host_path)


class Host:
    """One agent and its surroundings."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.api = FakeKubeApi()
        self.kubelet = FakeKubelet(root / "kubelet")
        self.cri = FakeCri(root)
        self.nvml = FakeNvml(card(0), card(1))
        self.files = InstalledFiles(root)
        self.state, self.hook = self.files.state, self.files.hook
        self.virtual_manager = root / "vm"  # of the original manager; missing on most hosts
        self.kernel = KernelFiles(
            proc=root / "proc",
            cgroups=root / "cgroup",
            driver_version=root / "nvidia-version",  # missing: NVML says it
        )
        self.kernel.proc.mkdir()
        self.http_port = 0
        self.mount_socket = ""  # of gpustack-mount; empty: files lie on the disk
        self.place_undecided = True  # most tests are about the placement, not about the scheduler
        self.cdi_folder = root / "cdi"
        # What a test has agent.yml say besides.
        self.configuration: dict[str, Any] = {"cdi": {"spec_dir": str(self.cdi_folder)}}
        self._agent: Agent | None = None

    def __enter__(self) -> "Host":
        self.api.__enter__()
        self.kubelet.start()
        self.cri.start()
        info = {"kubeletVersion": "v1.34.4"}
        self.api.create("nodes", {"metadata": {"name": NODE}, "status": {"nodeInfo": info}})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_agent()
        self.cri.stop()
        self.kubelet.stop()
        self.api.stop()

    @property
    def agent(self) -> Agent:
        assert self._agent is not None, "the agent does not run"
        return self._agent

    def start_agent(
        self, store: DescriptorStore | None = None, *, registered: bool = True
    ) -> Agent:
        """Start the agent and, unless told otherwise, wait until the kubelet knows it."""
        self._agent = Agent(
            self.settings(),
            nvml=self.nvml,
            store=store or DescriptorStore(),
            device_dir=self.files.devices,
            linker_cache=self.files.linker_cache,
            kernel=self.kernel,
        )
        self._agent.start()
        if registered:
            self.kubelet.wait_for_plugins(CORE, MEMORY)
        return self._agent

    def stop_agent(self) -> None:
        if self._agent is not None:
            self._agent.close()
            self._agent = None
            for plugin in self.kubelet.plugins.values():
                plugin.close()
            self.kubelet.plugins.clear()

    def serve(self, notifier: Notifier) -> Callable[[], int]:
        """Run the agent's main loop in a thread; the returned function waits for its status."""
        status: list[int] = []
        thread = threading.Thread(target=lambda: status.append(self.agent.serve(notifier)))
        thread.start()

        def join() -> int:
            thread.join(_SECONDS)
            return status[0]

        return join

    def settings(self) -> settings.AgentSettings:
        file = self.root / "agent.yml"
        self.write_configuration(file)
        return settings.load(file)

    def write_configuration(self, file: pathlib.Path) -> None:
        """Write agent.yml: this host's, and the values of `configuration`, a key a line."""
        lines = [f"{key}: {json.dumps(value)}" for key, value in self.configuration.items()]
        if "health" not in self.configuration:
            lines.append("health: {poll_seconds: 0.1, probe_seconds: 0}")
        more = "".join(f"\n            {line}" for line in lines)
        file.write_text(f"""
            node_name: {NODE}
            kubeconfig: {self.api.write_kubeconfig(self.root / "kubeconfig")}
            kubelet_root: {self.kubelet.root}
            cri_endpoint: {self.cri.endpoint}
            state_dir: {self.state}
            run_dir: {self.root / "run"}
            mount_socket: {json.dumps(self.mount_socket)}
            http: {{port: {self.http_port}}}
            hook: {{version: {self.hook.name}}}
            place_undecided: {json.dumps(self.place_undecided)}
            virtual_manager: {{path: {self.virtual_manager}}}{more}
        """)

    def create(self, pod: Pod) -> Pod:
        """Give the pod to the API server, bound to this node; return it with the server's UID."""
        created = self.api.create("pods", pod)
        return dict(created)

    def share(self, name: str = "p", minor: int = 1, *, now_ns: int = 1, second: int = 0) -> Pod:
        """Create a pod of one container with a decision for half of a card.

        ``now_ns`` is the time of the decision, ``second`` that of the pod's creation.
        """
        written = decision((minor,), cores=50, memory=32, now_ns=now_ns)
        pod = make_pod(name, container("c0", 50, 32), annotations=written)
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02d}Z"
        return self.create(pod)

    def whole_card(self, name: str = "big", minor: int = 1) -> Pod:
        """Create a pod of one container with a decision for a whole card."""
        written = decision((minor,), cores=100, memory=0)
        return self.create(make_pod(name, container("c0", 100), annotations=written))

    def static_pod(
        self, name: str = "p", *, decided: bool = True, uid: str = STATIC_UID
    ) -> tuple[Pod, Pod]:
        """Create a mirror; return it, and the static pod as its kubelet knows it."""
        written = decision((1,), cores=50, memory=32) if decided else {}
        mirrored = {"kubernetes.io/config.mirror": uid, "kubernetes.io/config.hash": uid}
        pod = make_pod(name, container("c0", 50, 32), annotations={**written, **mirrored})
        mirror = self.create(pod)
        static = copy.deepcopy(mirror)
        static["metadata"]["uid"] = uid
        return mirror, static

    def undecided(self, name: str = "big") -> Pod:
        """Create a pod of one container that asks for a whole card and has no decision."""
        return self.create(make_pod(name, container("c0", 100)))

    def is_failed(self, pod: Pod) -> bool:
        """Say whether the API server knows that the pod has ended."""
        return finished(self.api.get("pods", pod["metadata"]["name"]))

    def end(self, pod: Pod, phase: str = "Succeeded") -> None:
        name = pod["metadata"]["name"]
        self.api.edit("pods", name, {"status": {"phase": phase}})

    def annotations(self, pod: Pod) -> dict[str, str]:
        found = self.api.get("pods", pod["metadata"]["name"])["metadata"]
        return dict(found.get("annotations") or {})

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for an effect of the agent's own threads."""
        done = threading.Event()
        for _ in range(int(_SECONDS / 0.02)):
            if condition():
                return
            done.wait(0.02)
        raise AssertionError("waited in vain")

    def folder(self, pod: Pod, name: str) -> pathlib.Path:
        return self.state / "containers" / str(pod["metadata"]["uid"]) / name
