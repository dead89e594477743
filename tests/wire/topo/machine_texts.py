"""The texts in `tests/data/topo`, what each must say, and the reader's answer to any text."""

import dataclasses
import pathlib

from gpustack.wire.topo.parser import BadTopoText, parse

TEXTS = pathlib.Path(__file__).parents[2] / "data" / "topo"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a text must say: NUMA nodes, the tree, and the sum of all pairs' costs."""

    numas: str  # a character a card
    tree: str  # groups in brackets behind their level; `-` joins runs of minors
    cost: int


MACHINES = {
    "dgx-1": Machine(
        numas="00001111",
        tree="SYS(NODE(0 1 2 3) NODE(4 5 6 7))",
        # 8 pairs by one link, 8 by two, 12 across the sockets without a link
        cost=8 * 18 + 8 * 9 + 12 * 60,
    ),
    "dgx-2": Machine(
        numas="0000000011111111",
        tree="SYS(NODE(0 1 2 3 4 5 6 7) NODE(8 9 10 11 12 13 14 15))",
        cost=120 * 3,
    ),
    "dgx-a100": Machine(
        numas="33117755", tree="SYS(NODE(0 1) NODE(2 3) NODE(4 5) NODE(6 7))", cost=28 * 2
    ),
    "hgx-h100": Machine(numas="00001111", tree="SYS(NODE(0 1 2 3) NODE(4 5 6 7))", cost=28),
    "container-nics": Machine(numas="??", tree="SYS(0 1)", cost=2),
    "a100-nvl": Machine(numas="00", tree="NODE(0 1)", cost=2),
    "l40s-8": Machine(
        numas="00001111",
        tree="SYS(NODE(PIX(0 1) PIX(2 3)) NODE(PIX(4 5) PIX(6 7)))",
        cost=4 * 20 + 8 * 50 + 16 * 60,
    ),
    "t4-10": Machine(
        numas="0000011111",
        tree="SYS(NODE(PXB(PIX(0 1) PIX(2 3)) 4) NODE(PXB(PIX(5 6) PIX(7 8)) 9))",
        cost=4 * 20 + 8 * 30 + 8 * 50 + 25 * 60,
    ),
    "v100-pcie-4": Machine(numas="0011", tree="SYS(PHB(0 1) PHB(2 3))", cost=2 * 40 + 4 * 60),
    "one-card": Machine(numas="0", tree="0", cost=0),
    "gb200": Machine(numas="0011", tree="SYS(NODE(0 1) NODE(2 3))", cost=6),
    "mig": Machine(numas="01", tree="SYS(0 1)", cost=60),
    "soc": Machine(numas="????", tree="SYS(PHB(0 1) PHB(2 3))", cost=2 * 40 + 4 * 60),
    "pcie-8": Machine(
        numas="00001111",
        tree="SYS(PXB(PIX(0 1) PIX(2 3)) PXB(PIX(4 5) PIX(6 7)))",
        cost=4 * 20 + 8 * 30 + 16 * 60,
    ),
    "p40-7": Machine(numas="0000000", tree="PHB(PIX(0 1 2) PIX(3 4 5 6))", cost=9 * 20 + 12 * 40),
}


def read(name: str) -> bytes:
    return (TEXTS / f"{name}.txt").read_bytes()


def answer(text: bytes) -> object:
    """Return the links, or the words of the refusal."""
    try:
        return parse(text).links
    except BadTopoText as error:
        return str(error)
