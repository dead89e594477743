"""A node's record says which agent and hook run there, and changes nothing else by that."""

import json

import pytest

from gpustack.wire.annotations import BadAnnotation
from gpustack.wire.nodes import NodeSoftware, decode_node, decode_software, encode_devices
from tests.wire.api import KEYS
from tests.wire.test_nodes import PAIR, api_node


def test_a_record_says_which_agent_and_hook_run_there() -> None:
    software = NodeSoftware(agent="0.2.0", hook="0.2.0-0badf00d")
    published = api_node(encode_devices(PAIR, software))
    assert decode_software(KEYS, published) == software
    assert decode_node(KEYS, published) == decode_node(KEYS, api_node(encode_devices(PAIR)))
    assert decode_software(KEYS, api_node(encode_devices(PAIR))) == NodeSoftware()
    assert decode_software(KEYS, {"metadata": {"name": "cpu1"}}) == NodeSoftware()


@pytest.mark.parametrize("value", [1, None, "x" * 81, ["0.2.0"]])
def test_a_version_of_another_form_is_refused(value: object) -> None:
    text = json.dumps(json.loads(encode_devices(PAIR)) | {"agent": value})
    with pytest.raises(BadAnnotation, match="agent"):
        decode_software(KEYS, api_node(text))
