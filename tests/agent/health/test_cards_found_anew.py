"""Cards that don't answer at the agent's start, or have another minor while it runs."""

import dataclasses
import pathlib
import socket

import pytest

from gpustack.adapters.nvml import CardFault
from gpustack.adapters.systemd import Notifier
from gpustack.agent.node.inventory import CardInventory
from gpustack.model.node import Card
from gpustack.wire.nodes import decode_node
from tests.agent.health.cards import card_inventory
from tests.agent.host import KEYS, NODE, Host, card_of
from tests.fakes.kubelet import AdmissionError
from tests.fakes.nvml import FakeNvml, card

_SECONDS = 10.0  # after this long a test counts as hung


def _moved(minor: int, *, to: int) -> Card:
    return dataclasses.replace(card(minor), minor=to)


def _places(inventory: CardInventory) -> list[tuple[int, str, bool]]:
    return [(each.minor, each.uuid, each.healthy) for each in inventory.node.cards]


@pytest.mark.usefixtures("short_wait")
def test_a_renumbered_card_and_that_at_its_old_minor_stay_taken(host: Host) -> None:
    host.start_agent()
    running = host.whole_card("running", 1)
    host.kubelet.admit(running)
    host.nvml.show(_moved(1, to=0), _moved(0, to=1))

    def published() -> list[str]:
        return [each.uuid for each in decode_node(KEYS, host.api.get("nodes", NODE)).cards]

    host.wait_until(lambda: published() == [card(1).uuid, card(0).uuid])
    assert not host.agent.tasks.failed
    # Card 1 of before is taken, whatever its minor is; so is the one that its container reaches.
    old = host.whole_card("old", 0)
    with pytest.raises(AdmissionError, match="CardRenumbered"):
        host.kubelet.admit(old)
    host.end(old, "Failed")
    early = host.undecided("early")
    with pytest.raises(AdmissionError, match="NoWholeCard"):
        host.kubelet.admit(early)
    host.end(early, "Failed")
    host.end(running, "Succeeded")
    assert card_of(host.kubelet.admit(host.undecided("new"))["c0"]) == "/dev/nvidia0"


def test_a_card_that_is_not_found_again_keeps_its_place(tmp_path: pathlib.Path) -> None:
    nvml = FakeNvml(card(0), card(1), card(2))
    inventory = card_inventory(tmp_path, nvml)
    links = inventory.node.links
    nvml.set_faults(CardFault(uuid=card(1).uuid, reason="Lost"))
    nvml.show(card(0), card(2))
    inventory.look()
    assert _places(inventory) == [(minor, card(minor).uuid, minor != 1) for minor in (0, 1, 2)]
    assert inventory.node.links == links


def test_a_card_whose_minor_is_another_cards_now_loses_its_place(tmp_path: pathlib.Path) -> None:
    nvml = FakeNvml(card(0), card(1))
    inventory = card_inventory(tmp_path, nvml)
    nvml.show(_moved(1, to=0))
    inventory.look()
    assert _places(inventory) == [(0, card(1).uuid, True)]


def test_a_card_that_is_new_under_a_running_agent_is_taken_up(tmp_path: pathlib.Path) -> None:
    nvml = FakeNvml(card(0))
    inventory = card_inventory(tmp_path, nvml)
    nvml.show(card(0), card(3))
    inventory.look()
    assert _places(inventory) == [(0, card(0).uuid, True), (3, card(3).uuid, True)]


def test_the_status_names_a_card_that_was_left_out(host: Host) -> None:
    host.nvml.left_out = ("card of index 2 gives no answer within 20 s",)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(host.root / "notify"))
        listener.settimeout(_SECONDS)
        host.start_agent()
        join = host.serve(Notifier(str(host.root / "notify")))
        while b"2 cards, driver 535.261.03; left out: card of index 2" not in listener.recv(4096):
            pass
        host.agent.tasks.stop.set()
        assert join() == 0
