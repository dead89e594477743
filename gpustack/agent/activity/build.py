"""The parts that watch what shares do with their cards."""

from gpustack.adapters.kube import EventRecorder
from gpustack.adapters.nvml import Nvml
from gpustack.agent.activity.energy import EnergyAccounts
from gpustack.agent.activity.memory_judge import MemoryJudge
from gpustack.agent.activity.nvml_usage import NvmlUsage
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.cluster.writes import PodWrites
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.health.node_events import NodeEvents
from gpustack.agent.identification.process_owners import ProcessOwners
from gpustack.agent.identification.runtime import RuntimeView
from gpustack.agent.settings import AgentSettings
from gpustack.agent.violations.isolation_violations import IsolationViolations
from gpustack.agent.violations.kill import PodKill
from gpustack.agent.violations.reactions import OnViolation, Reactions
from gpustack.agent.violations.standing import StandingViolations


def violations(
    settings: AgentSettings,
    pods: PodView,
    writes: PodWrites,
    runtime: RuntimeView,
    *,
    events: EventRecorder,
) -> tuple[ProcessOwners, IsolationViolations]:
    """Return what knows whose processes are, and what reports violations and acts on them."""
    owners = ProcessOwners(runtime)
    found = IsolationViolations(
        events.record,
        reactions=Reactions(OnViolation(settings.on_violation), kill=PodKill(pods, writes).end),
        standing=StandingViolations(pods.api_uid),
        hooks=settings.state_dir / "hooks",
        identity=owners.identity,
    )
    return owners, found


def sampler(
    settings: AgentSettings,
    records: AllocationRecords,
    folders: LimitsFiles,
    nvml: Nvml,
    owners: ProcessOwners,
    *,
    found: IsolationViolations,
) -> ActivitySampler:
    """Return the sampler, not started, that reports what it finds."""
    node = NodeEvents(settings.node_name, found.tell)
    return ActivitySampler(
        records=records,
        folders=folders,
        usage=NvmlUsage(nvml, owners, is_good=settings.collect_gpu_time),
        energy=EnergyAccounts(nvml, records),
        memory=MemoryJudge(found, tell_unowned=node.tell_unowned, tell_stranger=node.tell_stranger),
    )
