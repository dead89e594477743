"""The parts that answer the kubelet's calls for a container."""

import pathlib
from collections.abc import Callable

from gpustack.adapters.kube import EventRecorder
from gpustack.adapters.mount_helper import MountHelper
from gpustack.agent.cluster.pod_failure import PodFailure
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.cluster.writes import PodWrites
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.allocator import Allocator
from gpustack.agent.containers.assigned_annotation import AssignedAnnotation
from gpustack.agent.containers.decisions import PodDecisions
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.containers.pre_start import PreStart
from gpustack.agent.containers.share_limits import ShareLimits
from gpustack.agent.containers.undecided import UndecidedPods
from gpustack.agent.identification.pairing_refusals import PairingRefusals
from gpustack.agent.identification.pod_identification import PodIdentification
from gpustack.agent.identification.pre_start_check import PreStartCheck
from gpustack.agent.identification.runtime import KubeletView, RuntimeView
from gpustack.agent.mounts.share_mounts import ShareMounts
from gpustack.agent.node.host_files import HostFiles
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.settings import AgentSettings
from gpustack.wire.keys import Keys
from gpustack.wire.mount_request import FOLDER


def limits_files(settings: AgentSettings, runtime: RuntimeView, held: HeldFiles) -> LimitsFiles:
    """Return the folders of all shares."""
    helper = MountHelper(pathlib.Path(settings.mount_socket)) if settings.mount_socket else None
    return LimitsFiles(
        settings.state_dir / FOLDER,
        context_bytes=settings.context_bytes,
        may_run=runtime.may_run,
        held=held,
        mounts=ShareMounts(helper),
    )


def allocator(
    keys: Keys,
    pods: PodView,
    records: AllocationRecords,
    *,
    inventory: CardInventory,
    finder: PodIdentification,
    free_cards: Callable[[float], None],
    place_undecided: bool,
    writes: PodWrites,
    events: EventRecorder,
    limits: ShareLimits,
    host_files: HostFiles,
) -> Allocator:
    """Return the answer to Allocate."""
    undecided = UndecidedPods(keys=keys, writes=writes, place=place_undecided, tell=events.record)
    decisions = PodDecisions(
        keys=keys,
        inventory=inventory,
        pods=pods,
        records=records,
        free_cards=free_cards,
        undecided=undecided,
    )
    return Allocator(
        keys=keys,
        records=records,
        finder=finder,
        decisions=decisions,
        limits=limits,
        host_files=host_files,
    )


def pre_start(
    keys: Keys,
    pods: PodView,
    records: AllocationRecords,
    *,
    inventory: CardInventory,
    writes: PodWrites,
    kubelet: KubeletView,
    folders: LimitsFiles,
    limits: ShareLimits,
    confirmation: AssignedAnnotation,
    may_come: Callable[[str], bool],
) -> tuple[PreStart, PairingRefusals]:
    """Return the answer to PreStartContainer, and its refusals."""
    refusals = PairingRefusals(
        pods=pods,
        records=records,
        failure=PodFailure(keys=keys, writes=writes),
        may_come=may_come,
        inventory=inventory,
    )
    check = PreStartCheck(
        keys=keys,
        pods=pods,
        records=records,
        kubelet=kubelet,
        folders=folders,
        refusals=refusals,
    )
    answer = PreStart(
        pods=pods, records=records, check=check, limits=limits, confirmation=confirmation
    )
    return answer, refusals
