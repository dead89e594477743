"""A cluster in which nothing is wrong, on a fake API server."""

import datetime
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from gpustack.cli.doctor.cluster.laid_policies import LAID, LaidPolicy
from gpustack.cli.main import main
from gpustack.wire import schemas
from tests.cli.snapshots import CARDS, KEYS, node, pod, quota
from tests.fakes.kube_api import FakeKubeApi

LABELS = {"nvidia-device-enable": "enable", "gaia.tencent.com/gpu-pool": "train"}
LEASES = "leases"
POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
SYSTEM = "kube-system"


def good_node() -> dict[str, Any]:
    """Return a node whose amounts are those of its record's healthy cards."""
    units = sum(card.memory_units for card in CARDS)
    allocatable = {KEYS.vcuda_core: str(100 * len(CARDS)), KEYS.vcuda_memory: str(units)}
    ready = {"type": "Ready", "status": "True"}
    return node(labels=LABELS) | {"status": {"allocatable": allocatable, "conditions": [ready]}}


def lease(name: str = "kube-scheduler", *, age_seconds: float = 1) -> dict[str, Any]:
    """Return a scheduler's lease that was renewed so long ago."""
    renewed = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age_seconds)
    text = renewed.isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": "cp1_1", "leaseDurationSeconds": 15, "renewTime": text}
    return {"metadata": {"name": name, "namespace": SYSTEM}, "spec": spec}


def policy(name: str, laid: LaidPolicy) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a policy and its binding, as the role lays them, without the expressions."""
    spec = {
        "failurePolicy": "Fail",
        "variables": [{"name": each, "expression": "1"} for each in laid.variables],
        "validations": [{"expression": "true"}] * laid.validations,
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return {"metadata": {"name": name}, "spec": spec}, {"metadata": {"name": name}, "spec": binding}


def fill(api: FakeKubeApi) -> None:
    """Lay out a cluster in which nothing is wrong."""
    api.create("nodes", good_node())
    api.create("nodes", {"metadata": {"name": "cp1"}})  # without cards
    held = pod("holder", 60, 8, held=True)
    api.create("pods", held)
    limits = '{"default": {"quota": {"T4": 2}, "pool": ["train"]}}'
    api.create("configmaps", quota(limits))
    api.create(LEASES, lease())
    for name, laid in LAID.items():
        one, binding = policy(name, laid)
        api.create(POLICIES, one)
        api.create(BINDINGS, binding)


def ask(
    capsys: pytest.CaptureFixture[str], *words: str, status: int | None = None
) -> dict[str, Any]:
    """Return what `gpustack doctor -o json` prints, which has the form of its schema."""
    found = main(["doctor", *words, "-o", "json"])
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert schemas.problems(schemas.load("doctor"), value) == []
    assert status in {None, found}
    return value


def bad(value: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the checks that found something, each with its level."""
    found = ((each["check"], each["level"]) for each in value["findings"] if each["level"] != "ok")
    return list(dict.fromkeys(found))


def kubeconfig(api: FakeKubeApi, folder: pathlib.Path) -> tuple[str, str]:
    """Return the option that names this cluster."""
    return "--kubeconfig", str(api.write_kubeconfig(folder / "kubeconfig"))


Fault = Callable[[FakeKubeApi], object]
