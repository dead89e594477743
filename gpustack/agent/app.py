"""The composition root: the agent's parts, and the order in which they start and end."""

import functools
import logging
import pathlib

from gpustack.adapters.cri import CriClient
from gpustack.adapters.kube import EventRecorder, KubeClient
from gpustack.adapters.nvml import Nvml
from gpustack.adapters.podresources import PodResourcesClient
from gpustack.adapters.systemd import Notifier
from gpustack.agent.activity.isolation_violations import IsolationViolations
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.audit import build as audit
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.cluster.writes import PodWrites
from gpustack.agent.condition import Condition, checks
from gpustack.agent.containers.allocate_response import is_protected
from gpustack.agent.containers.allocation_records import open_records
from gpustack.agent.containers.allocator import Allocator
from gpustack.agent.containers.assigned_annotation import AssignedAnnotation
from gpustack.agent.containers.decisions import PodDecisions
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.containers.pod_failure import PodFailure
from gpustack.agent.containers.pre_start import PreStart
from gpustack.agent.containers.recovery import Recovery
from gpustack.agent.containers.restore import Restore
from gpustack.agent.containers.share_limits import ShareLimits
from gpustack.agent.containers.undecided import UndecidedPods
from gpustack.agent.identification.pairing_refusals import PairingRefusals
from gpustack.agent.identification.pod_identification import PodIdentification
from gpustack.agent.identification.pre_start_check import PreStartCheck
from gpustack.agent.identification.process_owners import ProcessOwners
from gpustack.agent.identification.runtime import KubeletView, RuntimeView
from gpustack.agent.instance import OnlyInstance
from gpustack.agent.kubelet import plugins
from gpustack.agent.kubelet.checkpoint import KubeletCheckpoint
from gpustack.agent.kubelet.registrar import Registrar
from gpustack.agent.node import host_files
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.node.publisher import NodePublisher
from gpustack.agent.settings import AgentSettings
from gpustack.agent.tasks import Tasks
from gpustack.agent.web import self_metrics
from gpustack.agent.web.metrics import registry
from gpustack.agent.web.pages import pages
from gpustack.agent.web.server import WebServer
from gpustack.agent.web.usage import UsageReader
from gpustack.wire.keys import Keys
from gpustack.wire.kube.api_objects import decode_host_pod

logger = logging.getLogger(__name__)

_SYNC_SECONDS = 10.0  # the agent waits no longer for the API server before it starts


class Agent:
    """All parts of one agent, built and not started.

    Args:
        settings: the configuration.
        nvml: the driver; closed by `close`.
        device_dir: where device nodes stand.
        linker_cache: what `ldconfig -p` prints; read from the system when left out.

    Raises:
        GpustackError: the driver's files or the kubeconfig can't be used.
        OSError: the state directory or the HTTP port can't be used.
    """

    def __init__(
        self,
        settings: AgentSettings,
        *,
        nvml: Nvml,
        device_dir: pathlib.Path = pathlib.Path("/dev"),
        linker_cache: str | None = None,
    ) -> None:
        self._settings = settings
        self._instance = OnlyInstance(settings.run_dir / "agent.lock")
        self.keys = Keys(settings.domain)
        self.tasks = Tasks()
        self.nvml = nvml
        self.inventory = CardInventory(
            nvml=nvml, node_name=settings.node_name, poll_seconds=settings.health_poll_seconds
        )
        self.client = KubeClient.from_kubeconfig(settings.kubeconfig)
        self.cri = CriClient(settings.cri_endpoint)
        self.pod_resources = PodResourcesClient(settings.pod_resources_socket)
        self.records = open_records(settings.state_dir)
        self._build_views()
        self._build_pre_start()
        self._build_allocator(device_dir, linker_cache)
        self._build_kubelet()
        self._build_activity()
        self._build_web()

    def _build_views(self) -> None:
        settings, keys = self._settings, self.keys
        self.events = EventRecorder(self.client, component="gpustack-agent")
        self.writes = PodWrites(client=self.client)
        self.undecided = UndecidedPods(
            keys=keys,
            writes=self.writes,
            place=settings.place_undecided,
            tell=self.events.record,
        )
        self.confirmation = AssignedAnnotation(keys=keys, writes=self.writes)
        self.kubelet = KubeletView(
            self.pod_resources, KubeletCheckpoint(settings.kubelet_checkpoint, keys)
        )
        self.runtime = RuntimeView(self.cri)
        self.folders = LimitsFiles(
            settings.state_dir / "containers",
            context_bytes=settings.context_bytes,
            may_run=self.runtime.may_run,
        )
        self.limits = ShareLimits(keys=keys, records=self.records, folders=self.folders)
        self.pods = PodView(
            client=self.client,
            node_name=settings.node_name,
            decode=functools.partial(decode_host_pod, keys, is_protected),
            on_pod=self.limits.refresh,
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

    def _build_pre_start(self) -> None:
        keys = self.keys
        self.refusals = PairingRefusals(
            pods=self.pods,
            records=self.records,
            failure=PodFailure(keys=keys, writes=self.writes),
            may_come=self.recovery.may_take_up,
        )
        self.pre_start = PreStart(
            pods=self.pods,
            records=self.records,
            check=PreStartCheck(
                keys=keys,
                pods=self.pods,
                records=self.records,
                kubelet=self.kubelet,
                folders=self.folders,
                refusals=self.refusals,
            ),
            limits=self.limits,
            confirmation=self.confirmation,
        )

    def _build_allocator(self, device_dir: pathlib.Path, linker_cache: str | None) -> None:
        keys, driver = self.keys, self.inventory.node.driver
        self.host_files = host_files.find(
            self._settings, driver, device_dir=device_dir, linker_cache=linker_cache
        )
        self.finder = PodIdentification(
            keys=keys,
            pods=self.pods,
            records=self.records,
            kubelet=self.kubelet,
            runtime=self.runtime,
            may_come=self.recovery.may_take_up,
        )
        self.allocator = Allocator(
            keys=keys,
            records=self.records,
            finder=self.finder,
            decisions=PodDecisions(
                keys=keys,
                inventory=self.inventory,
                pods=self.pods,
                records=self.records,
                free_ended=self.recovery.free_ended,
                undecided=self.undecided,
            ),
            limits=self.limits,
            host_files=self.host_files,
        )

    def _build_kubelet(self) -> None:
        settings, keys = self._settings, self.keys
        self.registrar = Registrar(
            servers=plugins.servers(
                keys,
                self.inventory,
                self.records,
                settings.plugin_dir,
                allocator=self.allocator,
                pre_start=self.pre_start,
            ),
            kubelet_socket=settings.plugin_dir / "kubelet.sock",
            on_kubelet_restart=self.finder.kubelet_restarted,
        )
        self.publisher = NodePublisher(client=self.client, keys=keys, inventory=self.inventory)
        self.condition = Condition(
            tasks=self.tasks,
            registrar=self.registrar,
            inventory=self.inventory,
            checks=checks(settings, self.pods, self.publisher, self.runtime),
        )

    def _build_activity(self) -> None:
        self.owners = ProcessOwners(self.runtime)
        self.escapes = IsolationViolations(
            self.events.record, hooks=self._settings.state_dir / "hooks"
        )
        self.activity = ActivitySampler(
            records=self.records,
            folders=self.folders,
            nvml=self.nvml,
            owners=self.owners,
            escapes=self.escapes,
        )

    def _build_web(self) -> None:
        usage = UsageReader(
            nvml=self.nvml, inventory=self.inventory, records=self.records, owners=self.owners
        )
        numbers = (
            *self_metrics.pods(self.pods, self.writes, self.records, self.recovery),
            *self_metrics.identification(self.finder, self.refusals, self.kubelet, self.runtime),
            *self_metrics.audited(self.audit),
            *self_metrics.isolation(self.escapes, self.activity),
            *self_metrics.connections(self.registrar, self.events, lambda: self.web.dropped),
        )
        metrics = registry(
            inventory=self.inventory, records=self.records, usage=usage, numbers=numbers
        )
        self.web = WebServer(
            address=self._settings.http_address,
            port=self._settings.http_port,
            hosts=self._settings.http_allowed_hosts,
            pages=pages(
                registry=metrics,
                inventory=self.inventory,
                usage=usage,
                unready=self.condition.unready,
                unwell=self.condition.unwell,
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
        if not self.pods.wait_for_sync(_SYNC_SECONDS):
            logger.warning("the API server is away; going on with what the checkpoint says")
        self.recovery.begin()
        tasks.start("shared files", self.host_files.shared.run)
        tasks.start("recovery", self.recovery.run)
        tasks.start("activity", self.activity.run)
        tasks.start("audit", self.audit.run)
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
        self.pod_resources.close()
        self.cri.close()
        self.nvml.close()
        self.host_files.shared.close()
        self._instance.release()
