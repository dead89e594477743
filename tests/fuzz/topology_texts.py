"""The text of `nvidia-smi topo -m`, of any origin: `gpustack what-if` reads it from a file."""

from typing import Final

from gpustack.wire.annotations import BadAnnotation
from gpustack.wire.nodes import decode_node, encode_devices
from gpustack.wire.topo.parser import MOST_CARDS, BadTopoText, parse
from tests.fuzz.harness import Target
from tests.fuzz.node_records import api_node
from tests.wire.api import KEYS
from tests.wire.topo import machine_texts

_NAMES: Final = ("dgx-1", "a100-nvl", "mig", "soc", "gb200", "container-nics", "one-card")


def check(data: bytes) -> None:
    try:
        node = parse(data, name="n", model="A100", memory_bytes=1 << 30)
    except BadTopoText:
        return
    assert 0 < len(node.cards) <= MOST_CARDS
    try:
        published = decode_node(KEYS, api_node(encode_devices(node).encode()))
    except BadAnnotation as error:
        raise AssertionError("a machine is read that no node can publish") from error
    assert published.cards == node.cards


TARGET: Final = Target(
    check=check,
    seeds=[machine_texts.read(name) for name in _NAMES],
    words=[
        "GPU0",
        "GPU1",
        "NIC0",
        "MIG",
        "\tX",
        " X ",
        "NV12",
        "NODE",
        "PIX",
        "PXB",
        "PHB",
        "SYS",
        "SOC",
        "CPU Affinity",
        "NUMA Affinity",
        "GPU NUMA ID",
        "N/A",
        "0-15,32-47",
        "\r\n",
        "\t",
        "\x1b[4m",
        "\x1b]0;",
        "[0m",
        "> ",
        "\n\n",
        "0-99999",
        "GPU999999",
        "GPU0GPU1",
        "PIXPXB",
    ],
    limit_bytes=256 << 10,  # of 256 cards, the most that are read
    cpu_seconds=4.0,
)
