"""The bodies of filter, bind and preempt: kube-scheduler writes them, or who passes for it.

The first byte of an input says which: `f`, `b` or `p`; the rest is the body.
"""

import contextlib
import json
from typing import Final

import msgspec

from gpustack.wire import extender_v1 as bodies
from gpustack.wire.extender_v1.filter import MOST_NODES
from tests.fuzz.harness import Target

_LONGEST_NAME: Final = 253


def check(data: bytes) -> None:
    body = data[1:]
    try:
        match data[:1]:
            case b"f":
                _filter(body)
            case b"b":
                _bind(bodies.decode_binding_args(body))
            case b"p":
                _preempt(bodies.decode_preemption_args(body))
    except bodies.BadBody:
        return


def _filter(body: bytes) -> None:
    args = bodies.decode_filter_args(body)
    _check_pod(args.pod)
    assert len(args.names) <= MOST_NODES
    assert args.items is None or len(args.items) == len(args.names)
    for answer in (
        bodies.encode_filter_echo(args),
        bodies.encode_filter_result(args, chosen=args.names, failed={}, unresolvable={}),
    ):
        assert _names_in(answer) == list(args.names)
    with contextlib.suppress(bodies.BadBody):  # a value that JSON has and Python hasn't
        assert isinstance(bodies.pod_of(args.pod), dict)


def _names_in(answer: bytes) -> list[str]:
    """Return the names of the nodes that the scheduler reads from an answer."""
    args = b'{"Pod":{"metadata":{"name":"p","uid":"u"}},' + answer[1:]
    return list(bodies.decode_filter_args(args).names)


def _bind(args: bodies.BindingArgs) -> None:
    _check_pod(args.pod)
    assert 0 < len(args.node) <= _LONGEST_NAME
    pod = {"PodName": args.pod.name, "PodNamespace": args.pod.namespace, "PodUID": args.pod.uid}
    written = msgspec.json.encode({**pod, "Node": args.node})
    assert bodies.decode_binding_args(written) == args


def _preempt(args: bodies.PreemptionArgs) -> None:
    _check_pod(args.pod)
    pod = {"metadata": {"name": args.pod.name, "uid": args.pod.uid}}
    answer = json.loads(bodies.encode_preemption_result(args.victims))
    again = bodies.decode_preemption_args(msgspec.json.encode({"Pod": pod, **answer}))
    assert again.victims == args.victims


def _check_pod(pod: bodies.PodName) -> None:
    for name in (pod.name, pod.namespace, pod.uid):
        assert 0 < len(name) <= _LONGEST_NAME


_POD: Final = b'{"metadata":{"name":"p","namespace":"a","uid":"u-1"},"spec":{"nodeName":null}}'
_BOUND: Final = b'{"PodName":"p","PodNamespace":"a","PodUID":"u-1","Node":"n1"}'

TARGET: Final = Target(
    check=check,
    seeds=[
        b'f{"Pod":%b,"Nodes":null,"NodeNames":["n1","n2"]}' % _POD,
        b'f{"Pod":%b,"Nodes":{"metadata":{},"items":[{"metadata":{"name":"n1"}}]}}' % _POD,
        b'f{"pod":%b,"nodes":{"Items":[{"Metadata":{"Name":"n1"}}]},"nodenames":null}' % _POD,
        b"b" + _BOUND,
        b"b" + _BOUND.lower(),
        b'p{"Pod":%b,"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"u-2"}]}}}' % _POD,
        b'p{"Pod":%b,"NodeNameToVictims":{"n1":{"Pods":[%b],"NumPDBViolations":1}}}' % (_POD, _POD),
    ],
    words=[
        '"Nodes":',
        '"nodes":',
        '"NodeNames":',
        '"NODENAMES":',
        '"Pod":',
        '"metadata":',
        "null",
        '"items":[',
        '"managedFields":[',
        '"NodeToVictims":',
        '"NumPDBViolations":',
        '"UID":',
        '"name":"',
        "\\ud800",
        "1e400",
        "-1",
        "{}",
        "[]",
        ',"',
        '\\"',
        "18446744073709551616",
    ],
    limit_bytes=4 << 20,  # the server takes more; nothing in the readers asks how much
    cpu_seconds=4.0,
)
