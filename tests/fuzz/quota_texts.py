"""The text of the quota ConfigMap: an operator writes it, or a tool of theirs."""

import json
from typing import Final

from gpustack.model.quota.quota import Quota
from gpustack.wire.quota import BadQuota, parse_quota
from tests.fuzz.harness import Target

_MOST_HUNDREDTHS: Final = 100_000_000
_MOST_PROBLEMS: Final = 20
_LONGEST_PROBLEM: Final = 700


def check(data: bytes) -> None:
    try:
        quota = parse_quota(data.decode("utf-8", "replace"))
    except BadQuota as error:
        _check_refusal(error)
        return
    for namespace in quota.namespaces.values():
        assert all(0 <= each <= _MOST_HUNDREDTHS for each in namespace.cards.values())
    assert parse_quota(_written(quota)) == quota


def _check_refusal(error: BadQuota) -> None:
    """Assert that a few problems are told, each in a line's length."""
    assert 0 < len(error.problems) <= _MOST_PROBLEMS
    assert all(0 < len(each) <= _LONGEST_PROBLEM for each in error.problems)


def _written(quota: Quota) -> str:
    """Return a quota as an operator would write it."""
    namespaces = []
    for name, each in quota.namespaces.items():
        cards = ", ".join(
            f"{json.dumps(model)}: {hundredths // 100}.{hundredths % 100:02d}"
            for model, hundredths in each.cards.items()
        )
        pools = json.dumps(list(each.pools))
        namespaces.append(f'{json.dumps(name)}: {{"quota": {{{cards}}}, "pool": {pools}}}')
    return f"{{{', '.join(namespaces)}}}"


TARGET: Final = Target(
    check=check,
    seeds=[
        b'{"a": {"quota": {"A100": 1.5, "P40": 4}, "pool": ["training", "inference"]}}',
        b'{"a": {"quota": null, "pool": null}, "b": {"quota": {"NVIDIA A100-SXM4-80GB": 0}}}',
        b"{}",
    ],
    words=[
        '"quota":',
        '"pool":',
        "null",
        "1e2",
        "1E-2",
        "0.01",
        "1000000",
        "NaN",
        "Infinity",
        "-0",
        "\\ud800",
        "\\u0000",
        "{}",
        "[]",
        '"A 100"',
        '"A-100"',
        "111111111111111111111",
    ],
    limit_bytes=1 << 20,  # of a ConfigMap (kubernetes/pkg/apis/core/validation: MaxSecretSize)
    cpu_seconds=4.0,
)
