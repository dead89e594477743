"""The drawings and the answer in docs/model.md are the model's."""

import pathlib
from typing import Any

import pytest

from gpustack.cli.main import main
from gpustack.model.node import Node
from gpustack.model.place import place
from gpustack.model.placement import ContainerPlacement, Placement, placed
from gpustack.model.use import Use
from gpustack.wire.annotations import encode_decision
from gpustack.wire.pods import parse_request
from tests.cli.snapshots import KEYS, pod, write
from tests.cli.snapshots import node as node_item
from tests.model import machines

GUIDE = pathlib.Path(__file__).parents[3] / "docs" / "model.md"


def machine() -> Node:
    """Two switches on each of two sockets, card 0 shared and card 4 taken."""
    cards = range(8)

    def token(a: int, b: int) -> str:
        if a == b:
            return "X"
        return "PIX" if a // 2 == b // 2 else "PHB" if a // 4 == b // 4 else "SYS"

    links = tuple(tuple(token(a, b) for b in cards) for a in cards)
    taken = {0: Use(cores=60, memory_units=16), 4: machines.WHOLE}
    return machines.node(8, links, taken)


@pytest.mark.parametrize(
    ("letter", "cores", "memory", "minors"),
    [("A", 200, 0, (2, 3)), ("B", 30, 16, (0,)), ("C", 100, 0, (1,))],
)
def test_the_drawn_placements_are_the_models(
    letter: str, cores: int, memory: int, minors: tuple[int, ...]
) -> None:
    answer = place(machine(), machines.pod((cores, memory)))
    assert isinstance(answer, Placement)
    assert answer.containers[0].minors == minors
    drawn = GUIDE.read_text()
    assert all(f"{minor} {letter}" in drawn for minor in minors)


def test_the_printed_answer_is_the_commands(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    busy = machine()
    idle = Node(name="gpu1", cards=busy.cards, links=busy.links)
    web, train = pod("web", 60, 16), pod("train", 100, 0)
    for item, minor in ((web, 0), (train, 4)):
        placement = Placement(node="gpu1", containers=(given(item, minor),))
        item["metadata"]["annotations"] = encode_decision(KEYS, placement, 1)
    path = write(tmp_path, node_item(idle), web, train, pod("big", 700, 0))
    assert main(["explain", "big", "--snapshot", path]) == 1
    assert f"```\n{capsys.readouterr().out}```" in GUIDE.read_text()


def given(item: dict[str, Any], minor: int) -> ContainerPlacement:
    request = parse_request(KEYS, item)
    assert request is not None
    return placed(machine(), request.containers[0], [minor])


def test_the_guide_names_every_module_of_the_model() -> None:
    drawn = GUIDE.read_text()
    folder = GUIDE.parents[1] / "gpustack" / "model"
    names = {path.stem for path in folder.iterdir() if not path.name.startswith("_")}
    assert {name for name in names if name not in drawn} == set()
