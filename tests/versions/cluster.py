"""One GPU host and one control plane on fakes; agent and extender are processes of any release.

The kubelet, the container runtime and the API server are this process's, on real sockets; the cards
are the simulated driver's. A pod goes the whole way: filter, prioritize and bind as kube-scheduler
calls them, Allocate and PreStartContainer as the kubelet does, and its process with the hook that
its container got.
"""

import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import yaml

from tests.agent.host_files import InstalledFiles
from tests.control_plane import processes
from tests.extender.client import Answer, call, eventually
from tests.fakes.cri import FakeCri
from tests.fakes.kube_api import FakeKubeApi
from tests.fakes.kubelet import FakeKubelet
from tests.simgpu_tests.machine import Machine
from tests.versions import tenant
from tests.versions.pods import CORE, KEYS, MEMORY, NODE, Pod, uid_of
from tests.versions.releases import Release

CARDS = 2
CARD_BYTES = 8 << 30
_AGENT = pathlib.Path(__file__).with_name("agent_process.py")


def uuid(minor: int) -> str:
    return f"GPU-00000000-0000-0000-0001-{minor:012d}"


class Cluster:
    """A control plane and a GPU host; each program is started with the release that a test names.

    Attributes:
        agent_port: of the agent that runs.
        extender_port: of the extender that runs.
    """

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.api = FakeKubeApi()
        self.kubelet = FakeKubelet(root / "kubelet")
        self.cri = FakeCri(root)
        self.machine = Machine(folder=root)
        self.files = InstalledFiles(root)
        self.agent_port = self.extender_port = 0
        self._running: dict[str, contextlib.ExitStack] = {}
        self._containers: dict[str, str] = {}  # by the pod's UID

    def __enter__(self) -> "Cluster":
        self.machine.describe(
            {
                "cards": [
                    {"minor": minor, "uuid": uuid(minor), "memory": CARD_BYTES}
                    for minor in range(CARDS)
                ]
            }
        )
        self.machine.start(*range(CARDS))
        (self.root / "linker_cache").write_text(self.files.linker_cache)
        self.api.__enter__()
        self.kubelet.start()
        self.cri.start()
        info = {"kubeletVersion": "v1.34.4"}
        labels = {"nvidia-device-enable": "enable"}
        node = {"metadata": {"name": NODE, "labels": labels}, "status": {"nodeInfo": info}}
        self.api.create("nodes", node)
        return self

    def __exit__(self, *_: object) -> None:
        for running in self._running.values():
            running.close()
        self.cri.stop()
        self.kubelet.stop()
        self.api.stop()

    def start_extender(self, release: Release) -> None:
        """Run a release's extender in the place of the one that runs."""
        self._stop("extender")
        self.extender_port = processes.free_port()
        values = {
            "listen": f"127.0.0.1:{self.extender_port}",
            "kubeconfig": str(self.api.write_kubeconfig(self.root / "kubeconfig")),
        }
        file = self.root / "extender.yml"
        file.write_text(yaml.safe_dump(values))
        started = self._start("extender", release, "-P", "-m", "extender.main", "--config", file)
        started.wait_until(lambda: _is_ready(self.extender_port))

    def start_agent(self, release: Release, *, hook: Release, ready: bool = True) -> None:
        """Run a release's agent, which gives that release's hook, in place of the one that runs."""
        self.stop_agent()
        self.agent_port = processes.free_port()
        values: dict[str, Any] = {
            "node_name": NODE,
            "kubeconfig": str(self.api.write_kubeconfig(self.root / "kubeconfig")),
            "kubelet_root": str(self.kubelet.root),
            "cri_endpoint": self.cri.endpoint,
            "state_dir": str(self.files.state),
            "run_dir": str(self.root / "run"),
            "http": {"port": self.agent_port},
            "hook": {"version": hook.install_hook(self.files.state / "hooks").name},
            "place_undecided": False,
        }
        if release.name != "0.1.0":  # it knows neither
            values |= {"mount_socket": "", "cdi": {"spec_dir": str(self.root / "cdi")}}
            values |= {"virtual_manager": {"path": str(self.root / "vm")}}
        (self.root / "agent.yml").write_text(yaml.safe_dump(values))
        started = self._start("agent", release, "-P", _AGENT, self.root)
        plugins = self.kubelet.plugins
        started.wait_until(
            lambda: (
                all(name in plugins and plugins[name].lists for name in (CORE, MEMORY))
                and _is_ready(self.agent_port) == ready
            )
        )

    def stop_agent(self) -> None:
        self._stop("agent")
        for plugin in self.kubelet.plugins.values():
            plugin.close()
        self.kubelet.plugins.clear()

    @property
    def published(self) -> str:
        """The cards as the agent has written them to its node."""
        annotations: dict[str, str] = self.api.get("nodes", NODE)["metadata"]["annotations"]
        return annotations[KEYS.gpu_devices]

    def ask(self, verb: str, body: object) -> Any:
        """Call a verb of the extender as kube-scheduler does; return the decoded answer."""
        path = f"/scheduler/{verb}"
        answer = call(self.extender_port, "POST", path, json.dumps(body).encode())
        assert answer.status == 200, answer.raw
        return answer.body

    def fits(self, pod: Pod) -> bool:
        """Ask filter whether the node takes a pod."""
        found = self.ask("filter", {"Pod": pod, "Nodes": None, "NodeNames": [NODE]})
        return bool(found["NodeNames"] == [NODE])

    def schedule(self, pod: Pod) -> Pod:
        """Create a pod and bind it as kube-scheduler does; return it as it is then."""
        created = self.api.create("pods", pod)
        eventually(lambda: self.fits(created) and self._binds(created))
        return dict(self.api.get("pods", created["metadata"]["name"]))

    def _binds(self, pod: Pod) -> bool:
        """Score and bind a pod; say whether it is bound.

        The agent may hold the cards of a pod that has just ended until the runtime has told its
        containers' end: then a scheduler asks again.
        """
        (score,) = self.ask("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": [NODE]})
        assert score["Host"] == NODE
        named = {"PodName": pod["metadata"]["name"], "PodNamespace": "default"}
        error: str = self.ask("bind", {**named, "PodUID": uid_of(pod), "Node": NODE})["Error"]
        assert not error or "the scheduler will ask again" in error
        return not error

    def admit(self, pod: Pod) -> Any:
        """Let the kubelet allocate and start a pod's container; return what it starts with."""
        self.kubelet.admit(pod)
        return self.restart(pod)

    def restart(self, pod: Pod) -> Any:
        """Let the kubelet start a container that it has allocated for."""
        answer = self.kubelet.start_container(pod, "main", CORE)
        uid, name = uid_of(pod), pod["metadata"]["name"]
        self._containers[uid] = self.cri.run(
            uid, "main", pod=name, annotations=dict(answer.annotations)
        )
        return answer

    def exit(self, pod: Pod) -> None:
        """Let a pod's container end; its kubelet may start it again."""
        self.cri.exit(self._containers.pop(uid_of(pod)))

    def end(self, pod: Pod) -> None:
        """Let a pod end, and be deleted, as its user and the kubelet do."""
        name = pod["metadata"]["name"]
        self.exit(pod)
        self.api.edit("pods", name, {"status": {"phase": "Succeeded"}})
        self.api.delete("pods", name)
        self.kubelet.remove(pod)

    def measures(self, pod: Pod) -> bool:
        """Say whether the agent's metrics have a pod."""
        name = pod["metadata"]["name"]
        return any(
            line.startswith("container_request_gpu_utilization{") and f'pod_name="{name}"' in line
            for line in get(self.agent_port, "/metrics").text.splitlines()
        )

    def cards(self) -> dict[int, int]:
        """Return how much of each card pods hold, by /v1 of the extender: hundredths by minor."""
        (node,) = get(self.extender_port, "/v1/cluster").body["nodes"]
        return {card["minor"]: card["cores_used"] for card in node["cards"]}

    @contextlib.contextmanager
    def tenant(
        self, pod: Pod, answer: Any, hook: Release, source: str
    ) -> Iterator["subprocess.Popen[str]"]:
        """Run a Python client in a pod's container until the block ends."""
        folder = self.root / uid_of(pod)
        with tenant.start(self.machine, folder, answer, hook.paths, source) as process:
            yield process

    def _start(self, name: str, release: Release, *command: str | pathlib.Path) -> Any:
        running = self._running[name] = contextlib.ExitStack()
        environment = self.machine.env | {"PYTHONPATH": str(release.source)}
        log = self.root / f"{name}.log"
        return running.enter_context(
            processes.running([sys.executable, *command], log, environment)
        )

    def _stop(self, name: str) -> None:
        running = self._running.pop(name, None)
        if running is not None:
            running.close()


def get(port: int, path: str) -> Answer:
    answer = call(port, "GET", path)
    assert answer.status == 200, answer.raw
    return answer


def _is_ready(port: int) -> bool:
    try:
        return call(port, "GET", "/readyz").status == 200
    except OSError:
        return False
