"""A GPU host's folders while pods run: agent, kubelet and proc, below one folder."""

import base64
import json
import pathlib

from gpustack.adapters.checkpoint import CheckpointFile
from gpustack.adapters.deviceplugin import deviceplugin_pb2 as plugin

BUILD = "0.1.0-0123abcd"
OLDER = "0.0.9-89abcdef"
# No driver's version: playbooks read this machine's /proc, and containers of a testbed beside have
# folders of their drivers mounted.
DRIVER = "0.0.1"


class GpuHost:
    """The folders; `state`, `kubelet`, `logs` and `proc` are the module's arguments."""

    def __init__(self, root: pathlib.Path) -> None:
        self.state, self.kubelet = root / "gpustack", root / "kubelet"
        self.logs, self.proc = root / "logs", root / "proc"
        for folder in (
            self.state / "hooks" / BUILD,
            self.state / "hooks" / OLDER,
            self.state / "driver" / DRIVER,
            self.kubelet / "device-plugins",
            self.logs,
            self.proc / "self",
        ):
            folder.mkdir(parents=True)
        self.mount(("8:1", "/", "/"))
        self._records = CheckpointFile(self.state / "checkpoint.json")
        self._entries: list[dict[str, object]] = []

    @property
    def variables(self) -> dict[str, str]:
        """The inventory's variables for such a host."""
        return {
            "gpustack_hook_state_path": str(self.state),
            "gpustack_agent_state_path": str(self.state),
            "gpustack_agent_kubelet_path": str(self.kubelet),
        }

    def record(self, uid: str, namespace: str, name: str) -> None:
        """Add a pod to the agent's records."""
        self._records.put({"uid": uid, "namespace": namespace, "name": name})

    def forget(self, uid: str) -> None:
        """Remove a pod from the agent's records."""
        self._records.remove(uid)

    def keep(self, uid: str, namespace: str = "", name: str = "") -> None:
        """Let the kubelet have the pod's folder, and its logs where the pod has a name."""
        (self.kubelet / "pods" / uid).mkdir(parents=True)
        if name:
            (self.logs / f"{namespace}_{name}_{uid}").mkdir()

    def give(self, uid: str, build: str, resource: str = "tencent.com/vcuda-core") -> None:
        """Let the kubelet remember its answer for a pod."""
        hook = str(self.state / "hooks" / build)
        answer = plugin.ContainerAllocateResponse()
        answer.mounts.add(container_path="/etc/vcuda/hook", host_path=hook, read_only=True)
        answer.mounts.add(container_path="/etc/ld.so.preload", host_path=f"{hook}/ld.so.preload")
        self._entries.append(
            {
                "PodUID": uid,
                "ContainerName": "main",
                "ResourceName": resource,
                "DeviceIDs": {"0": ["1"]},
                "AllocResp": base64.b64encode(answer.SerializeToString()).decode(),
            }
        )
        document = {"Data": {"PodDeviceEntries": self._entries, "RegisteredDevices": {}}}
        file = self.kubelet / "device-plugins" / "kubelet_internal_checkpoint"
        file.write_text(json.dumps({**document, "Checksum": 1}))

    def mount(self, *mounts: tuple[str, str, str]) -> None:
        """Let the host have these mounts: each a file system, its root there, its mount point."""
        (self.proc / "self" / "mountinfo").write_text(
            "".join(f"{number} 1 {device} {root} {point} rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
                    for number, (device, root, point) in enumerate(mounts, 20))
        )  # fmt: skip

    def run(
        self,
        pid: int,
        mounted: list[str],
        *,
        cgroup: str = "0::/\n",
        root: str = "/",
        device: str = "8:1",
    ) -> None:
        """Start a process that has these mounted, as proc shows it: folders of the first disk."""
        folder = self.proc / str(pid)
        (folder / "ns").mkdir(parents=True)
        (folder / "ns" / "mnt").symlink_to(f"mnt:[{pid // 10}]")
        (folder / "root").symlink_to(root)
        lines = ["21 20 0:5 / / rw,relatime - overlay overlay rw"]
        lines += [f"{each} 20 {device} {root} /x ro - ext4 /dev/sda1 rw" for each, root in
                  enumerate(mounted, 22)]  # fmt: skip
        (folder / "mountinfo").write_text("\n".join(lines) + "\n")
        (folder / "cgroup").write_text(cgroup)
        (folder / "comm").write_text("python3\n")
