"""New pods avoid a card at fault, and its running ones keep it."""

import json
import pathlib
import socket
import threading
import urllib.request
from typing import Any

import pytest

from gpustack.adapters.control import ControlClient, ControlRefusal
from gpustack.adapters.nvml import CardFault, xid_fault
from gpustack.adapters.systemd import Notifier
from gpustack.agent import condition
from gpustack.agent.cluster.pods import uid_of
from gpustack.wire.nodes import decode_node
from gpustack.wire.pods import finished
from tests.agent.health.cards import card_inventory
from tests.agent.host import CORE, KEYS, NODE, Host, Pod, card_of
from tests.fakes.kubelet import AdmissionError
from tests.fakes.nvml import FakeNvml, card

_SECONDS = 10.0  # after this long a test counts as hung


def _client(host: Host) -> ControlClient:
    path = host.root / "run" / "agent.sock"
    host.wait_until(path.is_socket)
    return ControlClient(path)


def _published(host: Host) -> list[tuple[bool, str]]:
    found = decode_node(KEYS, host.api.get("nodes", NODE))
    return [(each.healthy, each.reason) for each in found.cards]


def _close(host: Host, number: int, minor: int = 1) -> None:
    """Raise an XID, and wait until kubelet and API server know it."""
    host.nvml.send_xid(xid_fault(card(minor).uuid, number))
    host.kubelet.wait_for(lambda: len(host.kubelet.plugins[CORE].healthy()) == 100)
    host.wait_until(lambda: _published(host)[minor:][:1] == [(False, f"Xid{number}")])


def _uses(host: Host, pod: Pod) -> bool:
    return host.agent.records.get(pod["metadata"]["uid"]) is not None


def _is_refused(host: Host, name: str) -> None:
    pod = host.share(name, 1)
    with pytest.raises(AdmissionError, match="UnhealthyCards"):
        host.kubelet.admit(pod)
    host.end(pod, "Failed")
    uid = pod["metadata"]["uid"]
    seen = host.agent.pods.snapshot
    host.wait_until(lambda: all(finished(each) for each in seen()[0] if uid_of(each) == uid))


def test_an_xid_closes_the_card_to_new_pods_until_it_is_released(host: Host) -> None:
    host.start_agent()
    running = host.share("running", 1)
    host.kubelet.admit(running)
    host.cri.run(running["metadata"]["uid"], "c0")
    _close(host, 48)
    _is_refused(host, "late")
    assert _uses(host, running)
    host.stop_agent()
    host.start_agent()
    host.kubelet.wait_for(lambda: len(host.kubelet.plugins[CORE].healthy()) == 100)
    assert _published(host)[1] == (False, "Xid48")
    _is_refused(host, "later")
    assert _uses(host, running)
    released = _client(host).release("1", "was reset")
    assert (released.state, released.uuid) == ("healthy", card(1).uuid)
    host.kubelet.wait_for(lambda: len(host.kubelet.plugins[CORE].healthy()) == 200)
    host.wait_until(lambda: _published(host)[1] == (True, ""))
    last = host.share("last", 1)
    assert card_of(host.kubelet.admit(last)["c0"]) == "/dev/nvidia1"


def test_the_node_gets_an_event_that_says_what_to_do(host: Host) -> None:
    host.start_agent()
    _close(host, 48)
    (event,) = _events(host, "CardQuarantined")
    assert event["type"] == "Warning"
    assert event["metadata"]["namespace"] == "default"
    about = event["involvedObject"]
    assert (about["kind"], about["name"], about["uid"]) == ("Node", NODE, NODE)
    assert "namespace" not in about
    assert f"card {card(1).uuid} is quarantined: XID 48, double-bit ECC error" in event["message"]
    _client(host).release(card(1).uuid, "")
    (event,) = _events(host, "CardHealthy")
    assert event["type"] == "Normal"


def _condition(host: Host) -> dict[str, str]:
    """Return the condition, once it is there."""

    def found() -> list[dict[str, str]]:
        conditions = host.api.get("nodes", NODE).get("status", {}).get("conditions", ())
        return [each for each in conditions if each["type"] == "UnhealthyCards"]

    host.wait_until(lambda: bool(found()))
    (only,) = found()
    return only


def test_the_nodes_condition_names_its_closed_cards(host: Host) -> None:
    host.start_agent()
    found = _condition(host)
    assert (found["status"], found["reason"]) == ("False", "AllCardsOpen")
    _close(host, 48)
    host.wait_until(lambda: _condition(host)["status"] == "True")
    found = _condition(host)
    assert found["reason"] == "CardsClosed"
    assert found["message"].startswith("1 of 2 cards take no new pods: 1 (Xid48 since 20")
    began = found["lastTransitionTime"]
    assert began == found["lastHeartbeatTime"]
    _close(host, 79, minor=0)
    host.wait_until(lambda: "2 of 2 cards" in _condition(host)["message"])
    assert _condition(host)["lastTransitionTime"] == began
    for each in (card(0), card(1)):
        _client(host).release(each.uuid, "")
    host.wait_until(lambda: _condition(host)["status"] == "False")


def test_a_condition_that_stands_is_not_written_again(host: Host) -> None:
    host.start_agent()
    _close(host, 48)
    host.wait_until(lambda: _condition(host)["status"] == "True")
    host.stop_agent()
    host.api.requests.clear()
    host.start_agent()
    host.wait_until(lambda: bool(host.api.asked("PATCH", f"/nodes/{NODE}$")))
    _client(host).release("1", "")
    host.wait_until(lambda: _condition(host)["status"] == "False")
    assert len(host.api.asked("PATCH", f"/nodes/{NODE}/status$")) == 1


def _events(host: Host, reason: str) -> list[dict[str, Any]]:
    """Return the Events of a reason, once there is one."""
    path = "/api/v1/namespaces/default/events"

    def found() -> list[dict[str, Any]]:
        posted = [each.body for each in host.api.asked("POST", path)]
        return [each for each in posted if each["reason"] == reason]

    host.wait_until(lambda: bool(found()))
    return found()


def test_metrics_count_closed_cards_by_a_bounded_reason(host: Host) -> None:
    host.start_agent()
    _close(host, 48)
    _close_text = _metrics(host)
    assert 'gpustack_closed_cards{reason="Xid48"} 1.0' in _close_text
    assert 'gpustack_card_faults_total{reason="Xid48"} 1.0' in _close_text


def _metrics(host: Host) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{host.agent.web.ports[0]}/metrics") as answer:
        return str(answer.read().decode())


def test_root_lists_quarantines_and_releases_cards(host: Host) -> None:
    host.start_agent()
    client = _client(host)
    assert [(each.minor, each.state) for each in client.cards()] == [(0, "healthy"), (1, "healthy")]
    taken = client.quarantine(card(0).uuid, "a fan is loud")
    assert (taken.minor, taken.state, taken.reason) == (0, "quarantined", "Quarantined")
    assert taken.text == "by hand: a fan is loud"
    host.kubelet.wait_for(lambda: len(host.kubelet.plugins[CORE].healthy()) == 100)
    assert [each.state for each in client.cards()] == ["quarantined", "healthy"]
    assert client.release("0", "").state == "healthy"
    assert [each.state for each in client.cards()[0].history] == ["quarantined", "healthy"]
    with pytest.raises(
        ControlRefusal, match=r"no card has the UUID or minor '7'; there are 0 \(GPU"
    ):
        client.quarantine("7", "")


def _beats(listener: socket.socket) -> bool:
    """Say whether the watchdog's message comes before the listener's time is over."""
    try:
        while listener.recv(4096) != b"WATCHDOG=1":
            pass
    except TimeoutError:
        return False
    return True


def test_a_hung_call_into_nvml_silences_the_watchdog(
    host: Host, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hour is up at once: no test waits half a minute."""
    monkeypatch.setattr(condition, "_BEAT_SECONDS", 0.02)
    monkeypatch.setattr(condition, "_HUNG_SECONDS", 0.2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(_SECONDS)
        host.start_agent()
        join = host.serve(Notifier(str(tmp_path / "notify")))
        assert _beats(listener)
        host.nvml.hang()
        host.wait_until(lambda: bool(host.agent.condition.unwell()))
        while b"a call into NVML has not returned" not in listener.recv(4096):
            pass
        listener.settimeout(0.3)  # fifteen beats
        assert not _beats(listener)
        host.nvml.close()
        listener.settimeout(_SECONDS)
        assert _beats(listener)
        host.agent.tasks.stop.set()
        assert join() == 0


def test_a_replaced_driver_closes_all_cards_until_nvml_fits_it(host: Host) -> None:
    host.start_agent()
    running = host.share("running", 1)
    host.kubelet.admit(running)
    host.nvml.replace_driver("550.54.15", agrees=False)
    host.wait_until(lambda: _published(host) == [(False, "DriverMismatch")] * 2)
    assert any(
        "the library and the driver do not agree" in each for each in host.agent.condition.unready()
    )
    host.nvml.replace_driver("550.54.15", agrees=True)
    host.wait_until(lambda: _published(host) == [(True, "")] * 2)
    host.wait_until(lambda: host.agent.inventory.node.driver == "550.54.15")
    assert _uses(host, running)


def test_the_states_of_cards_are_roots_alone(host: Host) -> None:
    host.start_agent()
    file = host.state / "health.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["version"] == 1


def test_a_card_at_fault_when_the_agent_starts_is_closed_at_once(host: Host) -> None:
    host.nvml.set_faults(CardFault(uuid=card(0).uuid, reason="RemapPending"))
    agent = host.start_agent()
    assert [each.healthy for each in agent.inventory.node.cards] == [False, True]
    assert len(host.kubelet.plugins[CORE].lists[0]) == 200


def test_a_card_that_is_lost_for_less_than_a_poll_was_lost(tmp_path: pathlib.Path) -> None:
    """Its XID tells at once; no poll runs here."""
    lost, nvml = CardFault(uuid=card(0).uuid, reason="Lost"), FakeNvml(card(0))
    inventory, stop = card_inventory(tmp_path, nvml), threading.Event()
    thread = threading.Thread(target=inventory.run_events, args=(stop,))
    thread.start()
    nvml.set_faults(lost)
    nvml.send_xid(xid_fault(card(0).uuid, 79))
    seen = 0
    while inventory.node.cards[0].reason != "Lost":
        _, seen = inventory.wait_for_change(seen, _SECONDS)
    stop.set()
    thread.join(_SECONDS)
    nvml.set_faults()
    inventory.observe(nvml.faults())
    assert inventory.node.cards[0].healthy
