"""What kube-scheduler sends to an extender and reads from it (`k8s.io/kube-scheduler/extender/v1`).

Its Go types carry no JSON tags: names are written exactly as they are spelt there and read in any
case, as Go does. Unknown fields are passed over. The pod of a body is only a name: an old
scheduler drops fields that it doesn't know.
"""

from gpustack.wire.extender_v1.bind import BindingArgs, decode_binding_args, encode_binding_result
from gpustack.wire.extender_v1.fields import BadBody, PodName
from gpustack.wire.extender_v1.filter import (
    FilterArgs,
    decode_filter_args,
    encode_filter_echo,
    encode_filter_error,
    encode_filter_result,
    pod_of,
)
from gpustack.wire.extender_v1.preempt import (
    NodeVictims,
    PreemptionArgs,
    decode_preemption_args,
    encode_preemption_result,
)
from gpustack.wire.extender_v1.prioritize import MOST, encode_priorities

__all__ = [
    "MOST",
    "BadBody",
    "BindingArgs",
    "FilterArgs",
    "NodeVictims",
    "PodName",
    "PreemptionArgs",
    "decode_binding_args",
    "decode_filter_args",
    "decode_preemption_args",
    "encode_binding_result",
    "encode_filter_echo",
    "encode_filter_error",
    "encode_filter_result",
    "encode_preemption_result",
    "encode_priorities",
    "pod_of",
]
