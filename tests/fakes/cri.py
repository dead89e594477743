"""A container runtime with a list of containers: CRI v1 on a real socket, as containerd or CRI-O.

The names of containers' cgroups are those of the systemd driver: containerd's
internal/cri/server/podsandbox/helpers.go (getCgroupsPath: `SLICE:cri-containerd:ID`), and CRI-O's
internal/config/cgmgr/systemd_linux.go (`SLICE:crio:ID`, and `crio-conmon-ID.scope` for the
monitor), which runc and crun make `PREFIX-ID.scope`.
"""

import json
import pathlib
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import grpc

from gpustack.adapters.cri import cri_pb2 as pb
from tests.fakes.sockets import serve


class FakeCri:
    """A test starts and ends the containers."""

    def __init__(self, folder: pathlib.Path, *, name: str = "containerd") -> None:
        self._socket = folder / "cri.sock"
        self.name = name  # as Version says it: containerd, or cri-o
        self.version = "1.34.1"  # likewise; Debian's containerd has 1.6.20~ds1
        self.config: dict[str, Any] = {}  # what Status shows of it, as containerd's pkg/cri/config
        self._lock = threading.Lock()
        self._containers: dict[str, pb.Container] = {}
        self._sandboxes: dict[str, pb.PodSandbox] = {}  # by UID of the pod
        self.answer_seconds = 0.0  # of a runtime with much to do: how long each list takes it
        self._server: grpc.Server | None = None

    def __enter__(self) -> "FakeCri":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        return f"unix://{self._socket}"

    def start(self) -> None:
        self._server = serve(
            self._socket,
            "runtime.v1.RuntimeService",
            {
                "ListContainers": grpc.unary_unary_rpc_method_handler(
                    self._list,
                    request_deserializer=pb.ListContainersRequest.FromString,
                    response_serializer=pb.ListContainersResponse.SerializeToString,
                ),
                "ListPodSandbox": grpc.unary_unary_rpc_method_handler(
                    self._list_sandboxes,
                    request_deserializer=pb.ListPodSandboxRequest.FromString,
                    response_serializer=pb.ListPodSandboxResponse.SerializeToString,
                ),
                "Status": grpc.unary_unary_rpc_method_handler(
                    self._status,
                    request_deserializer=pb.StatusRequest.FromString,
                    response_serializer=pb.StatusResponse.SerializeToString,
                ),
                "Version": grpc.unary_unary_rpc_method_handler(
                    self._version,
                    request_deserializer=pb.VersionRequest.FromString,
                    response_serializer=pb.VersionResponse.SerializeToString,
                ),
            },
        )

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(grace=None).wait()
            self._server = None

    def run(
        self,
        pod_uid: str,
        name: str,
        *,
        pod: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> str:
        """Start a container and return its ID: 64 hex digits, as real runtimes make them."""
        with self._lock:
            container_id = f"{len(self._containers) + 1:064x}"
            self._containers[container_id] = pb.Container(
                id=container_id,
                metadata=pb.ContainerMetadata(name=name),
                state=pb.CONTAINER_RUNNING,
                labels={
                    "io.kubernetes.pod.uid": pod_uid,
                    "io.kubernetes.container.name": name,
                    "io.kubernetes.pod.namespace": "default",
                    "io.kubernetes.pod.name": pod,
                },
                annotations=dict(annotations or {}),
            )
        return container_id

    def make_sandbox(self, pod_uid: str) -> None:
        """Start a pod's sandbox, in which the kubelet makes its containers one by one."""
        labels = {"io.kubernetes.pod.uid": pod_uid}
        with self._lock:
            self._sandboxes[pod_uid] = pb.PodSandbox(state=pb.SANDBOX_READY, labels=labels)

    def stop_sandbox(self, pod_uid: str) -> None:
        """End a pod's sandbox, as the kubelet does after the pod's last container."""
        with self._lock:
            self._sandboxes[pod_uid].state = pb.SANDBOX_NOTREADY

    def cgroup(self, pod_uid: str, container_id: str) -> str:
        """Return the path of a container's cgroup; its monitor's is `monitor_cgroup`."""
        prefix = "crio" if self.name == "cri-o" else "cri-containerd"
        return f"{_slice(pod_uid)}/{prefix}-{container_id}.scope"

    def monitor_cgroup(self, pod_uid: str, container_id: str) -> str:
        """Return the path of the cgroup of CRI-O's conmon, where it is in the pod's."""
        return f"{_slice(pod_uid)}/crio-conmon-{container_id}.scope"

    def create_foreign(self) -> None:
        """Start a container that the kubelet doesn't know."""
        with self._lock:
            self._containers["f" * 64] = pb.Container(id="f" * 64, state=pb.CONTAINER_RUNNING)

    def exit(self, container_id: str) -> None:
        """End a container; the runtime still lists it."""
        with self._lock:
            self._containers[container_id].state = pb.CONTAINER_EXITED

    def lose_state(self, container_id: str) -> None:
        """Show a container as containerd does whose state it could not load when it started."""
        with self._lock:
            self._containers[container_id].state = pb.CONTAINER_UNKNOWN

    def _version(self, _: pb.VersionRequest, __: grpc.ServicerContext) -> pb.VersionResponse:
        return pb.VersionResponse(
            version="0.1.0",
            runtime_name=self.name,
            runtime_version=self.version,
            runtime_api_version="v1",
        )

    def _status(self, request: pb.StatusRequest, _: grpc.ServicerContext) -> pb.StatusResponse:
        shown = {"config": json.dumps(self.config), "golang": '"go1.21.8"'}
        return pb.StatusResponse(info=shown if request.verbose else {})

    def _list(
        self, _: pb.ListContainersRequest, __: grpc.ServicerContext
    ) -> pb.ListContainersResponse:
        threading.Event().wait(self.answer_seconds)
        with self._lock:
            return pb.ListContainersResponse(containers=self._containers.values())

    def _list_sandboxes(
        self, _: pb.ListPodSandboxRequest, __: grpc.ServicerContext
    ) -> pb.ListPodSandboxResponse:
        threading.Event().wait(self.answer_seconds)
        with self._lock:
            return pb.ListPodSandboxResponse(items=self._sandboxes.values())


def _slice(pod_uid: str) -> str:
    """Return a guaranteed pod's slice (kubernetes 1.34, cm/cgroup_manager_linux.go)."""
    return f"kubepods.slice/kubepods-pod{pod_uid.replace('-', '_')}.slice"
