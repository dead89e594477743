"""What nodes write must not keep the rest of the cluster out of a report."""

import json

import pytest

from tests.ansible import plugins

filters = plugins.load("roles/support/filter_plugins/support_objects.py")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 40_000 + "1" + "}" * 40_000, "{", "1e999"]
)
def test_a_text_that_describes_no_cards_leaves_out_itself_alone(text: str) -> None:
    nodes = [
        {
            "metadata": {
                "name": name,
                "labels": {"nvidia-device-enable": "enable"},
                "annotations": {"tencent.com/gpu-devices": described},
            }
        }
        for name, described in (("bad", text), ("good", '{"driver": "535.261.03"}'))
    ]
    bad, good = map(json.loads, filters.lines(filters.nodes(nodes, "tencent.com")).splitlines())
    assert bad["metadata"]["name"] == "bad"
    assert good["cards"] == {"driver": "535.261.03"}
