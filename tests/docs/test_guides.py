"""What the guides show is what the code reads and says."""

import math
import pathlib
import re
import time
import tomllib
from typing import Any

import pytest
import yaml

from extender.observability.event_messages import EventMessages
from extender.offline import OfflineExtender
from extender.settings import load
from gpustack.model.refusal import Reason
from gpustack.wire.keys import Keys
from gpustack.wire.pods import parse_request
from gpustack.wire.quota import decode_quota
from gpustack.wire.user_keys import core_limit

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = Keys()
GUIDES = ("install", "migration", "onebox", "quota", "tenants")
UNIT_MIB = 256


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


def objects(name: str) -> list[dict[str, Any]]:
    """Return the objects that a guide shows."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page(name), re.DOTALL | re.MULTILINE)
    return [yaml.safe_load(each) for each in blocks]


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {
        each["metadata"]["name"]: each
        for name in GUIDES
        for each in objects(name)
        if each["kind"] == kind
    }


PODS = named("Pod")


def asks(pod: dict[str, Any]) -> dict[str, Any]:
    limits: dict[str, Any] = pod["spec"]["containers"][0]["resources"]["limits"]
    return limits


def test_every_object_of_a_guide_is_looked_at() -> None:
    assert set(PODS) == {"share", "before", "after", "sliced"}
    assert set(named("ConfigMap")) == {"gpuquota"}
    assert sum(len(objects(name)) for name in GUIDES) == 5


@pytest.mark.parametrize("name", ["share", "after", "sliced"])
def test_a_pod_of_a_guide_asks_for_a_share(name: str) -> None:
    request = parse_request(KEYS, PODS[name])
    assert request is not None
    assert [each.is_share for each in request.containers] == [True]


def test_a_pod_of_hami_asks_for_nothing_here() -> None:
    assert parse_request(KEYS, PODS["before"]) is None


def test_the_pod_that_comes_from_hami_asks_for_the_same() -> None:
    before, after = asks(PODS["before"]), asks(PODS["after"])
    assert after[KEYS.vcuda_core] == before["nvidia.com/gpucores"]
    assert after[KEYS.vcuda_memory] == math.ceil(before["nvidia.com/gpumem"] / UNIT_MIB)
    request = parse_request(KEYS, PODS["after"])
    assert request is not None
    assert not request.accepts("NVIDIA T4", "")
    assert request.accepts("NVIDIA A100", "")


def test_the_pod_that_comes_from_time_slicing_has_its_part_and_bursts() -> None:
    replicas, card_mib = 10, 80 << 10
    sliced = asks(PODS["sliced"])
    assert sliced[KEYS.vcuda_core] == 100 / replicas
    assert sliced[KEYS.vcuda_memory] == card_mib / replicas / UNIT_MIB
    assert core_limit(KEYS, PODS["sliced"]) == 100


def test_the_quota_of_the_guide_is_what_its_words_say() -> None:
    quota = decode_quota(named("ConfigMap")["gpuquota"]).namespaces
    assert dict(quota["research"].cards) == {"A100": 300}
    assert dict(quota["interns"].cards) == {"T4": 50}
    assert quota["interns"].pools == ("shared",)


def test_the_event_that_tenants_are_shown_is_the_extenders() -> None:
    served = OfflineExtender(load(None), str(ROOT / "examples/busy.json"))
    words = EventMessages(served.snapshotter, served.evaluator, clock=time.monotonic)
    [pod] = [each for each in served.cache.pods if each.full_name == "default/serve"]
    names = sorted(served.cache.node_names)
    answers = [served.evaluator.refusal(pod, name) for name in names]
    assert [each.reason for each in answers if each] == [Reason.INSUFFICIENT_CORE] * len(names)
    message = words(pod, {Reason.INSUFFICIENT_CORE: len(names)}, names[0])()
    assert f"```text\n{message}\n```" in page("tenants")


@pytest.mark.parametrize("name", ["install", "onebox"])
def test_a_guide_installs_the_ansible_that_is_tested(name: str) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    [wanted] = [each for each in groups["ansible"] if re.match(r"ansible[^-\w]", each)]
    assert f"pip install '{wanted}' kubernetes\n" in page(name)
