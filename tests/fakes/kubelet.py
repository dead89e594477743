"""The kubelet's side of device plugins and PodResources, on real sockets.

It admits pods as the kubelet does: one at a time, init containers first, each container's resources
in any order, reusing an init container's devices for the containers after it. Its answers of
PodResources lack ordinary init containers and the UID, as the kubelet's do. Its checkpoint has the
devices of each container, and only the checkpoint is left after `crash`. It takes registrations as
1.37 does: none at a socket that is connected, and none there afterwards either.
"""

import copy
import pathlib
import random
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import grpc

from gpustack.adapters.deviceplugin import deviceplugin_pb2 as plugin_pb
from tests.fakes.kubelet_plugin import AdmissionError, ConnectionLost, Plugin
from tests.fakes.kubelet_resources import PodResourcesService
from tests.fakes.kubelet_state import (
    Known,
    Pod,
    checkpoint,
    containers_in_order,
    reusable_devices,
)
from tests.fakes.sockets import serve

_SECONDS = 15.0  # how long anything may take before a test counts as hung


class UnhealthyDevices(AssertionError):
    """A container has devices that have become unhealthy: the kubelet fails its pod."""


class TooFewDevices(AssertionError):
    """Fewer devices are free and healthy than a container asks for: the kubelet fails its pod."""


class FakeKubelet(PodResourcesService):
    """One node's kubelet; `root` stands for /var/lib/kubelet."""

    def __init__(self, root: pathlib.Path) -> None:
        super().__init__()
        self.root = root
        self.changed = threading.Condition()
        self.plugins: dict[str, Plugin] = {}
        self.registrations = 0
        self.allocations = 0  # calls of Allocate
        # For the plugins that register from then on: see Plugin.
        self.asked: Callable[[str, str], None] = lambda *_: None
        self.answered: Callable[[str], None] = lambda _: None
        self._written: dict[str, Known] = {}  # the checkpoint's contents
        self._removed: set[str] = set()
        self._blocked: set[str] = set()  # names of sockets that it refuses until it restarts
        self._servers: list[grpc.Server] = []
        for folder in ("device-plugins", "pod-resources"):
            (root / folder).mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "FakeKubelet":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Delete every socket of the plugin folder and listen, as the kubelet does at its start."""
        plugin_folder = self.root / "device-plugins"
        for socket in plugin_folder.glob("*.sock"):
            socket.unlink()
        self._blocked.clear()
        self._servers = [
            serve(
                plugin_folder / "kubelet.sock",
                "v1beta1.Registration",
                {
                    "Register": grpc.unary_unary_rpc_method_handler(
                        self._register,
                        request_deserializer=plugin_pb.RegisterRequest.FromString,
                        response_serializer=plugin_pb.Empty.SerializeToString,
                    )
                },
            ),
            self.serve_resources(self.root / "pod-resources" / "kubelet.sock"),
        ]

    def stop(self) -> None:
        for plugin in self.plugins.values():
            plugin.close()
        self.plugins.clear()
        for server in self._servers:
            server.stop(grace=None).wait()

    def restart(self) -> None:
        """Stop and start; pods keep their devices, as in the kubelet's checkpoint."""
        self.stop()
        self.start()

    def crash(self) -> None:
        """Die: all pods are forgotten, and only the checkpoint is left. See `start`."""
        self.stop()
        self.known.clear()

    def forget(self, pod: Pod) -> None:
        """Lose a pod's devices: the kubelet died before it wrote the checkpoint."""
        self.known.pop(pod["metadata"]["uid"], None)
        self._written.pop(pod["metadata"]["uid"], None)

    def remove(self, pod: Pod) -> None:
        """Note that the API server has deleted a pod; its devices are free from then on.

        Its entries of the checkpoint go with the next allocation.
        """
        self.known.pop(pod["metadata"]["uid"])
        self._removed.add(pod["metadata"]["uid"])

    def reject(self, pod: Pod) -> None:
        """Fail a pod at its admission, without a write to the API server."""
        self.known[pod["metadata"]["uid"]] = Known(pod=pod, rejected=True)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, _SECONDS), "the kubelet waited in vain"

    def wait_for_plugins(self, *resources: str) -> None:
        """Wait until the plugins of these resources have sent their devices."""
        self.wait_for(
            lambda: all(name in self.plugins and self.plugins[name].lists for name in resources)
        )

    def know(self, pod: Pod) -> None:
        """Note a pod before its first allocation."""
        uid = pod["metadata"]["uid"]
        if uid not in self.known:
            self.known[uid] = copy.deepcopy(self._written.get(uid) or Known(pod=pod))

    def give(self, pod: Pod, container: str, resource: str, ids: list[str]) -> None:
        """Give a container devices without a call of a plugin."""
        self.know(pod)
        known = self.known[pod["metadata"]["uid"]]
        known.devices.setdefault(container, {})[resource] = ids

    def admit(self, pod: Pod, *, memory_first: bool = False) -> dict[str, Any]:
        """Allocate for every container, in the kubelet's order; return the responses by container.

        Raises:
            AdmissionError: a plugin refused; the pod keeps its earlier devices until it is gone.
            UnhealthyDevices: the pod has some, from before the kubelet's restart.
        """
        self.know(pod)
        return {
            container["name"]: self.allocate(pod, container, memory_first=memory_first)
            for container in containers_in_order(pod)
        }

    def allocate(
        self, pod: Pod, container: Mapping[str, Any], *, memory_first: bool = False
    ) -> plugin_pb.ContainerAllocateResponse:
        """Allocate what one container lacks, and write it down; return all its answers merged."""
        self.know(pod)
        known = self.known[pod["metadata"]["uid"]]
        limits = container.get("resources", {}).get("limits", {})
        for resource in sorted(limits, reverse=memory_first):
            held = known.devices.get(container["name"], {})
            if resource in self.plugins:
                healthy = self.plugins[resource].healthy()
                if not set(held.get(resource, ())) <= set(healthy):
                    raise UnhealthyDevices("previously allocated devices are no longer healthy")
            if resource in self.plugins and resource not in held:
                self.allocate_resource(pod, container["name"], resource)
        self.write_checkpoint(pod)
        return known.answers.get(container["name"], plugin_pb.ContainerAllocateResponse())

    def write_checkpoint(self, pod: Pod) -> None:
        """Write the checkpoint with a pod's devices, and all that was written before."""
        uid = pod["metadata"]["uid"]
        self._written[uid] = copy.deepcopy(self.known[uid])
        for gone in self._removed:
            self._written.pop(gone, None)
        file = self.root / "device-plugins" / "kubelet_internal_checkpoint"
        beside = file.with_suffix(".new")  # as the kubelet: a reader never sees half of it
        beside.write_text(checkpoint(self._written))
        beside.replace(file)

    def allocate_resource(
        self, pod: Pod, container: str, resource: str
    ) -> plugin_pb.ContainerAllocateResponse:
        """Make one Allocate call and remember the devices once the plugin has agreed."""
        self.know(pod)
        known = self.known[pod["metadata"]["uid"]]
        ids = self._choose(known, container, resource)
        request = plugin_pb.AllocateRequest()
        request.container_requests.add(devices_ids=ids)
        self.allocations += 1
        response = self.plugins[resource].call("Allocate", request, plugin_pb.AllocateResponse)
        known.devices.setdefault(container, {})[resource] = ids
        answer: plugin_pb.ContainerAllocateResponse = response.container_responses[0]
        known.answers.setdefault(container, plugin_pb.ContainerAllocateResponse()).MergeFrom(answer)
        return answer

    def start_container(
        self, pod: Pod, container: str, resource: str
    ) -> plugin_pb.ContainerAllocateResponse:
        """Call PreStartContainer with the container's devices; return what it starts with.

        Raises:
            AdmissionError: the plugin refuses the start.
        """
        plugin = self.plugins[resource]
        assert plugin.options.pre_start_required
        ids = self.ids(pod, container, resource)
        request = plugin_pb.PreStartContainerRequest(devices_ids=ids)
        plugin.call("PreStartContainer", request, plugin_pb.PreStartContainerResponse)
        return self.known[pod["metadata"]["uid"]].answers[container]

    def ids(self, pod: Pod, container: str, resource: str) -> list[str]:
        return self.known[pod["metadata"]["uid"]].devices[container][resource]

    def swap(self, one: Pod, other: Pod) -> None:
        """Exchange the devices of two pods: an inference of the plugin was wrong."""
        first, second = (self.known[pod["metadata"]["uid"]] for pod in (one, other))
        first.devices, second.devices = second.devices, first.devices
        first.answers, second.answers = second.answers, first.answers
        for pod in (one, other):
            self.write_checkpoint(pod)

    def _choose(self, known: Known, container: str, resource: str) -> list[str]:
        """Choose a container's devices, as devicemanager's devicesToAllocate does."""
        spec = {each["name"]: each for each in containers_in_order(known.pod)}[container]
        size = int(spec["resources"]["limits"][resource])
        reusable = reusable_devices(known, container, resource)
        if len(reusable) >= size:
            return reusable[:size]  # no question then
        taken = {
            device
            for each in self.known.values()
            for held in each.devices.values()
            for device in held.get(resource, ())
        }
        plugin = self.plugins[resource]
        free = [device for device in plugin.healthy() if device not in taken]
        if len(free) + len(reusable) < size:
            raise TooFewDevices(f"{resource}: {size} asked, {len(free)} available")
        request = plugin_pb.PreferredAllocationRequest()
        request.container_requests.add(
            available_deviceIDs=[*reusable, *free],
            must_include_deviceIDs=reusable,
            allocation_size=size,
        )
        response = plugin.call(
            "GetPreferredAllocation", request, plugin_pb.PreferredAllocationResponse
        )
        # What wasn't offered is passed over, and what is missing is taken in any order.
        preferred = response.container_responses[0].deviceIDs
        chosen = list(dict.fromkeys((*reusable, *filter(set(free).__contains__, preferred))))[:size]
        others = [device for device in free if device not in chosen] if len(chosen) < size else []
        return chosen + random.sample(others, size - len(chosen))

    def _register(
        self, request: plugin_pb.RegisterRequest, context: grpc.ServicerContext
    ) -> plugin_pb.Empty:
        if request.version != "v1beta1":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"version {request.version}")
        old = self.plugins.get(request.resource_name)
        if old is not None and old.endpoint == request.endpoint and not old.ended:
            # As 1.37: it drops what it knows of the old client, too, and so misses its end.
            self._blocked.add(request.endpoint)
        if request.endpoint in self._blocked:
            message = f"device plugin already connected: {request.endpoint}"
            context.abort(grpc.StatusCode.UNKNOWN, message)
        plugin = Plugin(
            self.root / "device-plugins" / request.endpoint,
            request,
            self.changed,
            self.asked,
            self.answered,
        )
        with self.changed:
            self.plugins[request.resource_name] = plugin
            self.registrations += 1
            self.changed.notify_all()
        return plugin_pb.Empty()


__all__ = ["AdmissionError", "ConnectionLost", "FakeKubelet", "Plugin", "containers_in_order"]
