from gpustack.model.node import Card, Node
from gpustack.wire.kube import node_condition

NOW, BEFORE = "2026-11-30T12:00:00Z", "2026-11-29T12:00:00Z"


def node(*healthy: bool) -> Node:
    cards = [
        Card(
            minor=minor, uuid=f"GPU-{minor}", model="T4", memory_bytes=1 << 34,
            healthy=each, reason="" if each else "Lost", since="" if each else BEFORE,
        )
        for minor, each in enumerate(healthy)
    ]  # fmt: skip
    return Node(name="gpu1", cards=tuple(cards), links=())


def test_a_node_that_has_it_gets_none() -> None:
    for each in (node(True, True), node(True, False)):
        written = node_condition.to_write(each, {}, BEFORE)
        assert written is not None
        found = {"status": {"conditions": [{"type": "Ready"}, written]}}
        assert node_condition.to_write(each, found, NOW) is None


def test_the_moment_is_that_of_the_last_change_of_its_status() -> None:
    first = node_condition.to_write(node(True, False), {}, BEFORE)
    found = {"status": {"conditions": [first]}}
    more = node_condition.to_write(node(False, False), found, NOW)
    assert more is not None
    assert (more["lastTransitionTime"], more["lastHeartbeatTime"]) == (BEFORE, NOW)
    healed = node_condition.to_write(node(True, True), found, NOW)
    assert healed is not None
    assert (healed["status"], healed["lastTransitionTime"]) == ("False", NOW)


def test_conditions_that_are_null_are_none() -> None:
    for found in ({"status": None}, {"status": {"conditions": None}}):
        assert node_condition.to_write(node(True), found, NOW) is not None


def test_the_message_is_bounded() -> None:
    written = node_condition.to_write(node(*[False] * 256), {}, NOW)
    assert written is not None
    assert written["message"].endswith(" and 240 more")
    assert len(written["message"]) < 1024
