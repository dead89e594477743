"""The parts that watch what shares do with their cards."""

from gpustack.adapters.kube import EventRecorder
from gpustack.adapters.nvml import Nvml
from gpustack.agent.activity.energy import EnergyAccounts
from gpustack.agent.violations.isolation_violations import IsolationViolations
from gpustack.agent.activity.memory_judge import MemoryJudge
from gpustack.agent.activity.nvml_usage import NvmlUsage
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.health.node_events import NodeEvents
from gpustack.agent.identification.process_owners import ProcessOwners
from gpustack.agent.settings import AgentSettings


def build(
    settings: AgentSettings,
    records: AllocationRecords,
    folders: LimitsFiles,
    nvml: Nvml,
    owners: ProcessOwners,
    *,
    events: EventRecorder,
) -> tuple[ActivitySampler, IsolationViolations]:
    """Return the sampler, not started, and what it reports."""
    violations = IsolationViolations(
        events.record, hooks=settings.state_dir / "hooks", identity=owners.identity
    )
    sampler = ActivitySampler(
        records=records,
        folders=folders,
        usage=NvmlUsage(nvml, owners, is_good=settings.collect_gpu_time),
        energy=EnergyAccounts(nvml, records),
        memory=MemoryJudge(
            violations, tell_unowned=NodeEvents(settings.node_name, events.record).tell_unowned
        ),
    )
    return sampler, violations
