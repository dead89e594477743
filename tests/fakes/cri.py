"""A container runtime with a list of containers: CRI v1's ListContainers on a real socket."""

import pathlib
import threading
from collections.abc import Mapping
from types import TracebackType

import grpc

from gpustack.adapters.cri import cri_pb2 as pb
from tests.fakes.sockets import serve


class FakeCri:
    """A test starts and ends the containers."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._socket = folder / "cri.sock"
        self._lock = threading.Lock()
        self._containers: dict[str, pb.Container] = {}
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
                )
            },
        )

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(grace=None).wait()
            self._server = None

    def run(self, pod_uid: str, name: str, *, annotations: Mapping[str, str] | None = None) -> str:
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
                },
                annotations=dict(annotations or {}),
            )
        return container_id

    def create_foreign(self) -> None:
        """Start a container that the kubelet doesn't know."""
        with self._lock:
            self._containers["f" * 64] = pb.Container(id="f" * 64, state=pb.CONTAINER_RUNNING)

    def exit(self, container_id: str) -> None:
        """End a container; the runtime still lists it."""
        with self._lock:
            self._containers[container_id].state = pb.CONTAINER_EXITED

    def _list(
        self, _: pb.ListContainersRequest, __: grpc.ServicerContext
    ) -> pb.ListContainersResponse:
        with self._lock:
            return pb.ListContainersResponse(containers=self._containers.values())
