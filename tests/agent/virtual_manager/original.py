"""What the original manager leaves on a node: pods, the kubelet's answers for them, folders."""

import contextlib
import os
import pathlib
import socket
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from gpustack.adapters.deviceplugin import deviceplugin_pb2 as pb
from tests.agent.host import CORE, MEMORY, NODE, Host, Pod, container, make_pod

PREAMBLE = bytes.fromhex(pathlib.Path(__file__).with_name("preamble.hex").read_text("ascii"))
MEMORY_UNIT_BYTES = 256 * 1024 * 1024

_SECONDS = 20.0


class Original:
    """Does on a host what the original's manager does for its pods (reference in each function)."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._next = 0
        host.virtual_manager.mkdir(mode=0o777, parents=True)
        host.virtual_manager.chmod(0o777)  # its unit has UMask=0000

    def folder(self, pod: Pod) -> pathlib.Path:
        return self.host.virtual_manager / str(pod["metadata"]["uid"])

    def pod(
        self,
        name: str,
        *,
        minor: int = 1,
        cores: int = 50,
        memory: int = 32,
        annotations: Mapping[str, str] | None = None,
        beside: tuple[dict[str, Any], ...] = (),
    ) -> Pod:
        """Create a pod whose first container the original has allocated, with its folder."""
        written = {
            "tencent.com/predicate-time": "1700000000000000000",
            "tencent.com/predicate-node": NODE,
            "tencent.com/predicate-gpu-idx-0": str(minor),
            "tencent.com/gpu-assigned": "true",
            **(annotations or {}),
        }
        pod = make_pod(name, container("c0", cores, memory), *beside, annotations=written)
        pod["status"]["phase"] = "Running"
        pod = self.host.create(pod)
        self._answer(pod, minor, cores, memory)
        folder = self.folder(pod)
        folder.mkdir()
        folder.chmod(0o777)
        with socket.socket(socket.AF_UNIX) as left:  # of a manager that is gone
            descriptor = os.open(folder, os.O_RDONLY)
            left.bind(f"/proc/self/fd/{descriptor}/vcuda.sock")
            os.close(descriptor)
        return pod

    def run(self, pod: Pod, *, minor: int = 1, cores: int = 50, memory: int = 32) -> str:
        """Start the pod's container; return its ID."""
        return self.host.cri.run(
            pod["metadata"]["uid"], "c0", annotations=_annotations(minor, cores, memory)
        )

    def _answer(self, pod: Pod, minor: int, cores: int, memory: int) -> None:
        """Put its answer into the kubelet's checkpoint (allocator.go, 478 to 590)."""
        kubelet, uid = self.host.kubelet, pod["metadata"]["uid"]
        first = self._next
        self._next += 100
        kubelet.give(pod, "c0", CORE, [f"{CORE}-{first + each}" for each in range(cores)])
        kubelet.give(
            pod, "c0", MEMORY, [f"{MEMORY}-268435456-{first + each}" for each in range(memory)]
        )
        answer = pb.ContainerAllocateResponse(
            envs={"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64", "NVIDIA_VISIBLE_DEVICES": "GPU-x"},
            annotations=_annotations(minor, cores, memory),
        )
        answer.mounts.add(
            container_path="/usr/local/nvidia",
            host_path="/etc/gpu-manager/vdriver/nvidia",
            read_only=True,
        )
        answer.mounts.add(
            container_path="/etc/vcuda", host_path=str(self.folder(pod)), read_only=True
        )
        for node in (f"/dev/nvidia{minor}", "/dev/nvidiactl", "/dev/nvidia-uvm"):
            answer.devices.add(container_path=node, host_path=node, permissions="rwm")
        kubelet.known[uid].answers["c0"] = answer
        kubelet.write_checkpoint(pod)


def _annotations(minor: int, cores: int, memory: int) -> dict[str, str]:
    return {
        "tencent.com/vcuda-core": str(cores),
        "tencent.com/vcuda-memory": str(memory * MEMORY_UNIT_BYTES),
        "tencent.com/vcuda-device": f"/dev/nvidia{minor}",
    }


def place(host: Host, pid: int, pod_uid: str, container_id: str) -> None:
    """Let the host's proc and cgroup file systems show a process in a container."""
    place_in(host, pid, host.cri.cgroup(pod_uid, container_id))


def place_in(host: Host, pid: int, path: str) -> None:
    """Let them show a process in the cgroup of a path."""
    folder = host.kernel.proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup").write_text(f"0::/{path}\n")
    own = host.kernel.cgroups / path
    own.mkdir(parents=True, exist_ok=True)
    with (own / "cgroup.procs").open("a") as procs:
        procs.write(f"{pid}\n")


class Library:
    """A process with the original's library, that has not registered yet.

    Attributes:
        pids: its own, and that of its client.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        assert process.stdout is not None
        self.pids = tuple(map(int, process.stdout.readline().split()))

    def initialise(self) -> str:
        """Let it go on to register and to read its files; return the last that it prints."""
        out, _ = self._process.communicate("go\n", timeout=_SECONDS)
        return out.strip()


@contextlib.contextmanager
def library(
    program: pathlib.Path,
    folder: pathlib.Path,
    *,
    uid: str,
    container_id: str,
    limits: tuple[int, int, int] = (50, 32 * MEMORY_UNIT_BYTES, -1),
    name: str = "c0",
) -> Iterator[Library]:
    """Start it; `limits` are cores, bytes and the soft limit that it expects."""
    arguments = (folder, PREAMBLE.hex(), uid, container_id, name, *limits, 535, 0)
    with subprocess.Popen(
        [program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"]},
    ) as process:
        try:
            yield Library(process)
        finally:
            process.kill()
