"""The audit's parts."""

from gpustack.agent.audit.audit import Audit
from gpustack.agent.audit.mends import Mends
from gpustack.agent.audit.views import CardViews
from gpustack.agent.cluster.pods import PodView
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.containers.assigned_annotation import AssignedAnnotation
from gpustack.agent.containers.restore import Restore
from gpustack.agent.containers.share_limits import ShareLimits
from gpustack.agent.identification.runtime import KubeletView, RuntimeView
from gpustack.agent.node.inventory import CardInventory
from gpustack.wire.keys import Keys


def build(
    keys: Keys,
    inventory: CardInventory,
    pods: PodView,
    records: AllocationRecords,
    *,
    kubelet: KubeletView,
    runtime: RuntimeView,
    limits: ShareLimits,
    restore: Restore,
    confirmation: AssignedAnnotation,
) -> Audit:
    """Return the audit, not started."""
    return Audit(
        inventory=inventory,
        views=CardViews(
            keys=keys, pods=pods, records=records, kubelet=kubelet, runtime=runtime, limits=limits
        ),
        mends=Mends(
            pods=pods,
            records=records,
            runtime=runtime,
            restore=restore,
            confirmation=confirmation,
            limits=limits,
        ),
    )
