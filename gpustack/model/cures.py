"""What to do about each reason for which a pod gets no cards."""

from collections.abc import Mapping
from typing import Final

from gpustack.model.refusal import Reason

CURES: Final[Mapping[Reason, str]] = {
    Reason.INSUFFICIENT_CORE: (
        "Wait, or ask for less vcuda-core: `gpustack explain POD` says what would be enough, and"
        " `gpustack get cards` what each has left."
    ),
    Reason.INSUFFICIENT_MEMORY: (
        "Wait, or ask for less of either: one card must have both. A unit of vcuda-memory is 256"
        " MiB: for 8 GiB write 32."
    ),
    Reason.NO_WHOLE_CARD: (
        "Wait, or ask for fewer cards: whole cards (a vcuda-core of 100 or more) are those without"
        " any share. `gpustack get cards` shows which cards have pods."
    ),
    Reason.WRONG_MODEL: (
        "Change the pod's gpu-model or gpu-uuid: `gpustack get cards -o wide` lists the models and"
        " UUIDs that there are."
    ),
    Reason.TOPOLOGY_UNMET: (
        "Wait, ask for fewer cards, or take gpu-topology from the pod: `gpustack topo` on a node"
        " shows how its cards are joined."
    ),
    Reason.UNHEALTHY_CARDS: (
        "Wait, or have the cards mended: `gpustack card list` on their host says why each is closed"
        " and what NVIDIA says to do."
    ),
    Reason.QUOTA_EXCEEDED: (
        "End pods of the namespace, or have its quota raised: `gpustack get quotas` shows what is"
        " used and what is left."
    ),
    Reason.MODEL_FORBIDDEN: (
        "Have the administrator name the model in the namespace's quota: `gpustack get quotas`"
        " shows which it names."
    ),
    Reason.POOL_FORBIDDEN: (
        "Have the administrator name the node's pool in the namespace's quota, or put the node into"
        " one that it names (cluster_objects_gpu_pool): `gpustack get nodes -o wide` shows each"
        " node's pool."
    ),
    Reason.BAD_REQUEST: (
        "Delete the pod and create it with the field mended that `gpustack explain POD` names: a"
        " pod's limits can't be changed."
    ),
    Reason.NO_CARDS: (
        "Nothing, if the node has no GPU. Else `gpustack doctor --host` on it says why its cards"
        " aren't offered."
    ),
    Reason.NODE_UNKNOWN: (
        "Wait a moment where the node is new. If it stays, `gpustack doctor` says why the node"
        " can't be used."
    ),
    Reason.NOT_SEARCHED: "Nothing: kube-scheduler asks again, and another part is searched first.",
    Reason.SCHEDULING_GATED: (
        "Whoever wrote the pod's spec.schedulingGates takes them away when it may start."
    ),
    Reason.NODE_UNSCHEDULABLE: "`kubectl uncordon NODE` once nobody works on it.",
    Reason.TAINT_NOT_TOLERATED: "Give the pod the toleration, or take the taint from the node.",
    Reason.NODE_SELECTOR_UNMET: "Change the pod's nodeSelector, or label the node.",
    Reason.NODE_AFFINITY_UNMET: "Change the pod's nodeAffinity, or label the node.",
    Reason.AGENT_SILENT: (
        "`systemctl restart gpustack-agent` on the node; `gpustack doctor --host` there says more."
    ),
    Reason.UNKNOWN_CARD: (
        "Delete the pod: a new one is decided anew. Its card was replaced or has left the node."
    ),
    Reason.CARD_RENUMBERED: (
        "Delete the pod: a new one is decided anew. Cards got other minors, as after a reboot with"
        " one card less."
    ),
    Reason.UNJUSTIFIED_DECISION: (
        "Delete the pod, and find who wrote its decision: gpustack's scheduler extender alone may."
    ),
}
"""One cure for each code; names in capitals are for the reader to fill in."""
