"""Metrics of cards, shares and the kubelet's calls."""

import contextlib
import functools
import http.client
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import gpustack
from gpustack.adapters.nvml import CardFigures, xid_fault
from gpustack.agent.activity.share_figures import ShareFigures
from gpustack.wire.mapped.ledger import CardUse, LedgerReading
from tests.agent.host import CORE, NODE, Host, container, make_pod
from tests.fakes.kubelet import AdmissionError
from tests.fakes.nvml import card

_OWNER = ("uid", "c0")
_CARD = card(1).uuid
_NS = 1_000_000_000
_IDLE_ENERGY = "gpustack_card_idle_energy_joules_total"


def _scraped(host: Host) -> dict[str, list[tuple[Mapping[str, str], float]]]:
    """Return the samples by name, each with its labels."""
    client = http.client.HTTPConnection("127.0.0.1", host.agent.web.ports[0], timeout=10)
    with contextlib.closing(client):
        client.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
        text = client.getresponse().read().decode()
    found: dict[str, list[Any]] = {}
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_cards_figures_are_those_that_its_driver_gives(host: Host) -> None:
    host.nvml.shown[card(0).uuid] = CardFigures(
        busy_ratio=0.5, power_watts=300.5, uncorrected_errors=3.0
    )
    host.nvml.energy[card(0).uuid] = 12.0
    host.start_agent()
    found = _scraped(host)
    own = {"minor": "0", "uuid": card(0).uuid}
    assert found["gpustack_card_busy_ratio"] == [(own, 0.5)]
    assert found["gpustack_card_power_watts"] == [(own, 300.5)]
    assert found["gpustack_card_uncorrected_memory_errors_total"] == [(own, 3.0)]
    assert "gpustack_card_temperature_celsius" not in found, "no card gives it"
    host.wait_until(
        lambda: _scraped(host).get("gpustack_card_energy_joules_total") == [(own, 12.0)]
    )


def test_a_card_that_does_not_answer_hides_no_other(host: Host) -> None:
    for minor in (0, 1):
        host.nvml.shown[card(minor).uuid] = CardFigures(celsius=40.0 + minor)
    host.nvml.silent.add(card(0).uuid)
    host.start_agent()
    (found,) = _scraped(host)["gpustack_card_temperature_celsius"]
    assert found == ({"minor": "1", "uuid": card(1).uuid}, 41.0)


def test_every_xid_is_counted_and_a_programs_fault_closes_no_card(host: Host) -> None:
    def counted() -> dict[tuple[str, str], float]:
        found = _scraped(host).get("gpustack_card_xids_total", [])
        return {(each["minor"], each["reason"]): value for each, value in found}

    def arrived(sent: int) -> bool:
        return sum(counted().values()) == sent

    host.start_agent()
    for sent, (number, minor) in enumerate(((13, 0), (13, 0), (48, 1)), start=1):
        host.nvml.send_xid(xid_fault(card(minor).uuid, number))
        host.wait_until(functools.partial(arrived, sent))
    assert counted() == {("0", "Xid13"): 2, ("1", "Xid48"): 1}
    host.wait_until(
        lambda: sorted(_scraped(host)["gpustack_closed_cards"]) == [({"reason": "Xid48"}, 1)]
    )
    healthy = {each["minor"]: ok for each, ok in _scraped(host)["gpustack_card_healthy"]}
    assert healthy == {"0": 1, "1": 0}


def test_energy_is_a_containers_or_idle(host: Host) -> None:
    host.nvml.energy = {card(minor).uuid: 90.0 for minor in (0, 1)}
    host.start_agent()
    host.kubelet.admit(host.share("p", 1))

    def idle() -> dict[str, float]:
        found = _scraped(host)
        counted, idle = (
            {labels["minor"]: joules for labels, joules in found.get(name, [])}
            for name in ("gpustack_card_energy_joules_total", _IDLE_ENERGY)
        )
        assert counted == {minor: 90 + joules for minor, joules in idle.items()}, "of one look"
        return idle

    host.wait_until(lambda: idle() == {"0": 0.0, "1": 0.0})
    host.nvml.energy[card(0).uuid] = 93.0
    host.wait_until(lambda: idle() == {"0": 3.0, "1": 0.0})
    ((labels, joules),) = _scraped(host)["gpustack_container_energy_joules_total"]
    assert (labels["pod_name"], labels["minor"], joules) == ("p", "1", 0.0)


def test_the_kubelets_calls_are_counted_by_method_and_resource(host: Host) -> None:
    host.start_agent()
    pod = host.share("p", 1)
    host.kubelet.admit(pod)
    host.kubelet.start_container(pod, "c0", CORE)
    hiding = container("c0", 20, 8, volumeMounts=[{"mountPath": "/etc/vcuda"}])
    with pytest.raises(AdmissionError):
        host.kubelet.admit(host.create(make_pod("hides", hiding)))
    counts = {
        (labels["method"], labels["resource"]): value
        for labels, value in _scraped(host)["gpustack_kubelet_call_seconds_count"]
    }
    assert counts["Allocate", "vcuda-core"] == 2, "the refused one counts"
    assert counts["Allocate", "vcuda-memory"] == 1
    assert counts["GetPreferredAllocation", "vcuda-core"] == 2
    assert counts["PreStartContainer", "vcuda-core"] == 1
    buckets = _scraped(host)["gpustack_kubelet_call_seconds_bucket"]
    longest = [value for labels, value in buckets if labels["le"] == "+Inf"]
    assert sum(longest) == sum(counts.values())


def test_a_shares_limits_and_the_build_are_shown(host: Host) -> None:
    host.start_agent()
    host.kubelet.admit(host.share("p", 1))
    found = _scraped(host)
    ((labels, cores),) = found["gpustack_container_cores_limit_ratio"]
    assert (labels["pod_name"], labels["container_name"], labels["minor"]) == ("p", "c0", "1")
    assert cores == 0.5
    ((_, memory),) = found["gpustack_container_memory_limit_bytes"]
    assert memory == 32 * 256 * 1024**2
    ((build, one),) = found["gpustack_build_info"]
    assert (build["version"], build["node"], one) == (gpustack.__version__, NODE, 1.0)


def _reading(*, busy: int, denied: int = 0, used: int = 0) -> LedgerReading:
    use = CardUse(uuid=_CARD, busy_ns=busy * _NS, denied=denied, used_bytes=used)
    return LedgerReading(cards=(use,), slots=())


def test_counts_go_on_when_a_process_ends() -> None:
    figures = ShareFigures()
    for busy, denied in ((100, 5), (103, 6), (1, 0), (3, 2)):
        figures.note(_OWNER, _reading(busy=busy, denied=denied, used=busy))
    found = figures.of(_OWNER, _CARD)
    assert (found.busy_seconds, found.denied, found.used_bytes) == (5.0, 3, 3)
    figures.forget(frozenset())
    assert figures.of(_OWNER, _CARD).busy_seconds == 0


def test_a_tenant_that_lowers_its_count_lowers_no_counter() -> None:
    figures = ShareFigures()
    seen = []
    for busy in (5, 2, 9, 0, 1):
        figures.note(_OWNER, _reading(busy=busy))
        seen.append(figures.of(_OWNER, _CARD).busy_seconds)
    assert seen == sorted(seen)
