"""The composition root: the agent's parts, and the order in which they start and end."""

import functools
import logging
import pathlib

from gpustack.adapters.cri import CriClient, endpoint_of
from gpustack.adapters.kube import EventRecorder, KubeClient
from gpustack.adapters.nvml import Nvml
from gpustack.adapters.podresources import PodResourcesClient
from gpustack.adapters.systemd import DescriptorStore, Notifier
from gpustack.agent.activity import build as activity
from gpustack.agent.audit import build as audit
from gpustack.agent.cdi import build as cdi
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.cluster.writes import PodWrites
from gpustack.agent.condition import Condition, checks
from gpustack.agent.containers import build as containers
from gpustack.agent.containers.allocation_records import open_records
from gpustack.agent.containers.assigned_annotation import AssignedAnnotation
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.containers.recovery import Recovery
from gpustack.agent.containers.restore import Restore
from gpustack.agent.containers.share_limits import ShareLimits
from gpustack.agent.control import server as control
from gpustack.agent.health import build as health
from gpustack.agent.identification.pod_identification import PodIdentification
from gpustack.agent.identification.runtime import KubeletView, RuntimeView
from gpustack.agent.instance import OnlyInstance
from gpustack.agent.kernel_files import HOST, KernelFiles
from gpustack.agent.kubelet import plugins
from gpustack.agent.kubelet.call_durations import CallDurations
from gpustack.agent.kubelet.checkpoint import KubeletCheckpoint
from gpustack.agent.node import host_files
from gpustack.agent.node.publisher import NodePublisher, patch_of
from gpustack.agent.settings import AgentSettings
from gpustack.agent.tasks import Tasks
from gpustack.agent.virtual_manager import build as virtual_manager
from gpustack.agent.virtual_manager.original_containers import OriginalContainers
from gpustack.agent.web import build as web
from gpustack.agent.web import figures, self_metrics
from gpustack.agent.web.display import Display
from gpustack.agent.web.usage import UsageReader
from gpustack.wire.keys import Keys
from gpustack.wire.kube.api_objects import decode_host_pod
from gpustack.wire.kube.mount_paths import hiding

logger = logging.getLogger(__name__)

_SYNC_SECONDS = 10.0  # the agent waits no longer for the API server before it starts


class Agent:
    """All parts of one agent, built and not started.

    Args:
        settings: the configuration.
        nvml: the driver; closed by `close`.
        store: keeps containers' files open while the agent restarts.
        device_dir: where device nodes stand.
        linker_cache: what `ldconfig -p` prints; read from the system when left out.
        kernel: where processes and cgroups are shown.

    Raises:
        GpustackError: the driver's files, the kubeconfig or the container runtime can't be used.
        OSError: the state directory can't be used.
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        nvml: Nvml,
        store: DescriptorStore,
        device_dir: pathlib.Path = pathlib.Path("/dev"),
        linker_cache: str | None = None,
        kernel: KernelFiles = HOST,
    ) -> None:
        self._settings, self._kernel = settings, kernel
        self._instance = OnlyInstance(settings.run_dir / "agent.lock")
        self.keys = Keys(settings.domain)
        self.tasks, self.durations, self.nvml = Tasks(), CallDurations(), nvml
        self.client = KubeClient.from_kubeconfig(settings.kubeconfig)
        self.events = EventRecorder(self.client, component="gpustack-agent")
        self.inventory = health.inventory(settings, nvml, self.events)
        endpoint = endpoint_of(settings.cri_endpoint, settings.kubelet_root)
        self.cri = CriClient(endpoint, timeout_seconds=settings.cri_timeout_seconds)
        self.pod_resources = PodResourcesClient(settings.pod_resources_socket)
        self.records = open_records(settings.state_dir)
        self._build_views(HeldFiles(store))
        self._build_allocator(device_dir, linker_cache)
        self._build_activity()
        self._build_kubelet()
        self.virtual_manager = virtual_manager.build(
            settings, self.pods, self.runtime, self.inventory, self.originals, kernel=kernel
        )
        self._build_web()

    def _build_views(self, held: HeldFiles) -> None:
        settings, keys = self._settings, self.keys
        self.writes = PodWrites(client=self.client)
        self.confirmation = AssignedAnnotation(keys=keys, writes=self.writes)
        self.checkpoint = KubeletCheckpoint(settings.kubelet_checkpoint, keys)
        self.kubelet = KubeletView(self.pod_resources, self.checkpoint)
        self.originals = OriginalContainers(self.checkpoint, settings.virtual_manager_path)
        self.runtime = RuntimeView(self.cri)
        self.folders = containers.limits_files(settings, self.runtime, held)
        self.limits = ShareLimits(
            keys=keys, records=self.records, folders=self.folders, is_original=self.originals.has
        )
        self.pods = PodView(
            client=self.client,
            node_name=settings.node_name,
            decode=functools.partial(decode_host_pod, keys, hiding),
            on_pod=self.limits.note,
        )
        self.restore = Restore(
            keys=keys,
            inventory=self.inventory,
            pods=self.pods,
            records=self.records,
            kubelet=self.kubelet,
            confirmation=self.confirmation,
        )
        self.audit = audit.build(
            keys,
            self.inventory,
            self.pods,
            self.records,
            kubelet=self.kubelet,
            runtime=self.runtime,
            limits=self.limits,
            restore=self.restore,
            confirmation=self.confirmation,
        )
        self.recovery = Recovery(
            pods=self.pods,
            records=self.records,
            runtime=self.runtime,
            folders=self.folders,
            adoption=self.restore,
        )

    def _build_allocator(self, device_dir: pathlib.Path, linker_cache: str | None) -> None:
        self.cdi = cdi.devices(
            self._settings,
            self.client,
            self.cri,
            inventory=self.inventory,
            kubelet=self.kubelet,
            device_dir=device_dir,
        )
        self.host_files = host_files.find(
            self._settings,
            lambda: self.inventory.node.driver,
            self.checkpoint,
            cdi=self.cdi,
            device_dir=device_dir,
            linker_cache=linker_cache,
            kernel=self._kernel,
        )
        self.finder = PodIdentification(
            keys=self.keys,
            pods=self.pods,
            records=self.records,
            kubelet=self.kubelet,
            runtime=self.runtime,
            may_come=self.recovery.may_take_up,
        )
        self.allocator = containers.allocator(
            self.keys,
            self.pods,
            self.records,
            inventory=self.inventory,
            finder=self.finder,
            free_cards=self.recovery.free_cards,
            place_undecided=self._settings.place_undecided,
            writes=self.writes,
            events=self.events,
            limits=self.limits,
            host_files=self.host_files,
        )

    def _build_kubelet(self) -> None:
        settings, keys = self._settings, self.keys
        self.pre_start, self.refusals = containers.pre_start(
            self.keys,
            self.pods,
            self.records,
            inventory=self.inventory,
            writes=self.writes,
            kubelet=self.kubelet,
            folders=self.folders,
            limits=self.limits,
            confirmation=self.confirmation,
            may_come=self.recovery.may_take_up,
        )
        self.registrar = plugins.registrar(
            keys,
            self.inventory,
            self.records,
            settings.plugin_dir,
            allocator=self.allocator,
            pre_start=self.pre_start,
            durations=self.durations,
            on_kubelet_restart=self.finder.kubelet_restarted,
        )
        patch, held = patch_of(keys, settings), self.recovery.with_held
        self.publisher = NodePublisher(
            self.client, patch, self.inventory, held=held, violations=self.escapes.standing
        )
        self.condition = Condition(
            tasks=self.tasks,
            registrar=self.registrar,
            inventory=self.inventory,
            checks=checks(settings, self.pods, self.publisher, self.runtime, self.inventory)
            | {"no allocation can be recorded": lambda: self.records.problem}
            | {"shares can't get the hook": lambda: self.host_files.hook_problem}
            | {"the shares are not watched": lambda: self.activity.problem}
            | {"devices can't be given by CDI": lambda: self.cdi.problem},
            nvml_seconds=lambda: self.nvml.hung_seconds,
        )

    def _build_activity(self) -> None:
        self.owners, self.escapes = activity.violations(
            self._settings, self.pods, self.writes, self.runtime, events=self.events
        )
        self.activity = activity.sampler(
            self._settings, self.records, self.folders, self.nvml, self.owners, found=self.escapes
        )

    def _build_web(self) -> None:
        usage = UsageReader(
            nvml=self.nvml,
            inventory=self.inventory,
            records=self.records,
            owners=self.owners,
            period_seconds=self._settings.sample_period_seconds,
        )
        display = Display(self.inventory, usage)
        self.configuration, self.control = control.build(self._settings, self.inventory, display)
        numbers = (
            *self_metrics.pods(self.pods, self.writes, self.records, self.recovery),
            *self_metrics.identification(self.finder, self.refusals, self.kubelet, self.runtime),
            *self_metrics.health(self.inventory),
            *self_metrics.audited(self.audit),
            *self_metrics.isolation(self.escapes, self.activity),
            *self_metrics.originals(self.virtual_manager),
            *self_metrics.connections(self.registrar, self.events, lambda: self.web.dropped),
        )
        self.web = web.build(
            self._settings,
            self.inventory,
            self.records,
            usage=usage,
            display=display,
            condition=self.condition,
            numbers=numbers,
            figures=figures.collectors(
                self.nvml, self.inventory, self.records, self.activity, self.durations
            ),
        )

    def start(self) -> None:
        """Start every part; the plugins last, when the records agree with runtime and cluster."""
        tasks = self.tasks
        self.pods.start()
        tasks.start("writes", self.writes.run)
        tasks.start("publisher", self.publisher.run)
        tasks.start("health", self.inventory.run)
        tasks.start("events", self.inventory.run_events)
        tasks.start("http", self.web.run)
        tasks.start("control", self.control.run)
        if not self.pods.wait_for_sync(_SYNC_SECONDS):
            logger.warning("the API server is away; going on with what the checkpoint says")
        self.recovery.begin()
        self.host_files.start(tasks)
        tasks.start("recovery", self.recovery.run)
        tasks.start("activity", self.activity.run)
        tasks.start("audit", self.audit.run)
        tasks.start("limits", self.limits.run)
        if self.virtual_manager is not None:
            self.virtual_manager.start(tasks)
        self.events.start()
        tasks.start("registrar", self.registrar.run)

    def serve(self, notifier: Notifier) -> int:
        """Report the agent's state to systemd until it stops; return the exit status."""
        return self.condition.tell(notifier)

    def close(self) -> None:
        """End every thread and connection."""
        self.tasks.stop.set()
        self.pods.stop()
        self.events.stop()
        self.tasks.join()
        for one in (self.activity, self.pod_resources, self.cri, self.nvml, self.host_files.shared):
            one.close()
        self.folders.held.close()
        self._instance.release()
