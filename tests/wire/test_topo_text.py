"""`nvidia-smi topo -m` of 14 machines, the same in other clothes, and texts that are broken."""

import dataclasses
import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model import drawing, tree
from gpustack.model.device import Node
from gpustack.model.topology import parse_link
from gpustack.model.tree import TreeLevel
from gpustack.wire.annotations import Keys
from gpustack.wire.nodes import decode_node, encode_devices
from gpustack.wire.topo_text import BadTopoText, parse
from tests.model.machines import card, link_matrices

TEXTS = pathlib.Path(__file__).parents[1] / "data" / "topo"


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
    """The links, or the words of the refusal."""
    try:
        return parse(text).links
    except BadTopoText as error:
        return str(error)


def shape(branch: tree.Branch) -> str:
    inner = " ".join(shape(child) for child in branch.children)
    if branch.level is TreeLevel.CARD:
        return str(branch.cards[0])
    return inner if branch.level is TreeLevel.ROOT else f"{drawing.NAMES[branch.level]}({inner})"


def total_cost(node: Node) -> int:
    size = range(len(node.cards))
    return sum(node.link(a, b).cost for a in size for b in size if a < b)


def test_every_text_is_in_the_table_and_in_the_readme() -> None:
    assert {path.stem for path in TEXTS.glob("*.txt")} == set(MACHINES)
    readme = (TEXTS / "README.md").read_text()
    assert set(re.findall(r"^\| `(.+)\.txt`", readme, re.MULTILINE)) == set(MACHINES)


@pytest.mark.parametrize("name", MACHINES)
def test_a_machines_text_gives_its_numa_nodes_tree_and_costs(name: str) -> None:
    node, machine = parse(read(name)), MACHINES[name]
    assert "".join("?" if each.numa is None else str(each.numa) for each in node.cards) == (
        machine.numas
    )
    assert [each.minor for each in node.cards] == list(range(len(machine.numas)))
    assert shape(tree.of(node)) == machine.tree
    assert total_cost(node) == machine.cost


@pytest.mark.parametrize("name", MACHINES)
def test_a_texts_matrix_survives_the_annotation_and_the_printer(name: str) -> None:
    node = parse(read(name))
    keys = Keys()
    published = {"metadata": {"annotations": {keys.gpu_devices: encode_devices(node)}}}
    assert decode_node(keys, published) == node
    assert parse(drawing.matrix(node).encode()) == node


@given(st.data(), st.sets(st.integers(0, 40), max_size=12))
def test_text_to_matrix_to_annotation_to_matrix_is_the_identity(
    data: st.DataObject, minors: set[int]
) -> None:
    cards = tuple(
        card(minor, uuid=f"TOPO-{minor:08x}", model="", memory_bytes=0, numa=numa)
        for minor in sorted(minors or {0})
        for numa in [data.draw(st.sampled_from([None, 0, 1, 11]))]
    )
    drawn = Node(name="", cards=cards, links=data.draw(link_matrices(len(cards))))
    text = drawing.matrix(drawn)
    read_back = parse(text.encode())
    assert read_back == drawn
    keys = Keys()
    published = {"metadata": {"annotations": {keys.gpu_devices: encode_devices(read_back)}}}
    decoded = decode_node(keys, published)
    assert decoded == drawn
    assert drawing.matrix(decoded) == text


@pytest.mark.parametrize("name", MACHINES)
def test_blanks_carriage_returns_colours_and_company_change_nothing(name: str) -> None:
    text = read(name).decode()
    node = parse(text.encode())
    assert parse(text.expandtabs(8).encode()) == node
    assert parse(text.replace("\n", "\r\n").encode()) == node
    assert parse(re.sub("(GPU[0-9]+)", "\x1b[1;32m\\1\x1b[0m", text).encode()) == node
    assert parse(("\n" + text.split("\nLegend")[0].strip("\n")).encode()) == node
    assert parse(text.encode("utf-16")) == node
    company = f"$ nvidia-smi topo -m\n2 NICs found, only displaying 1.\n{text}\n$ exit\n"
    assert parse(company.encode()) == node


@pytest.mark.parametrize("name", MACHINES)
def test_a_text_cut_off_anywhere_is_refused_or_its_matrix_is_whole(name: str) -> None:
    text = read(name)
    links = parse(text).links
    rows = text.index(b"\nLegend")
    for end in range(0, rows, rows // 300 + 1):
        found = answer(text[:end])
        assert found == links or re.match(r"line \d+: ", str(found))


@pytest.mark.parametrize("name", ["dgx-1", "dgx-2", "dgx-a100", "hgx-h100", "p40-7", "mig"])
def test_a_text_cut_off_in_the_middle_is_refused(name: str) -> None:
    text = read(name)
    with pytest.raises(BadTopoText, match="cut off"):
        parse(text[: text.index(b"\nLegend") // 2])


HEAD = "\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\n"
ROW0 = "GPU0\t X \tPIX\tSYS\t0-3\t0\n"
ROW1 = "GPU1\tPIX\t X \tSYS\t0-3\t0\n"
ROW2 = "GPU2\tSYS\tSYS\t X \t4-7\t1\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: the text ends without a heading"),
        ("No devices were found\n", "line 2: the text ends without a heading"),
        (ROW0 + ROW1 + ROW2, "without a heading"),
        (HEAD, "line 2: the text is cut off: no row of GPU0, GPU1, GPU2"),
        (HEAD + ROW0 + ROW1, "line 4: the text is cut off: no row of GPU2"),
        (HEAD + ROW0 + ROW1 + "GPU2\tSYS\tS", "line 4: the row of GPU2 is cut off: 2 of 3 cells"),
        (HEAD + ROW0 + ROW1 + "GPU2\tSYS\tSYS\t X", "line 4: the row of GPU2 is cut off in its"),
        (HEAD + ROW0 + ROW1 + "GPU3\tSYS\tSYS\t X ", "line 4: the row 'GPU3' where"),
        (HEAD + ROW0 + ROW1 + ROW2 + "GPU3\tSYS\tSYS\tSYS\n", "line 5: the row 'GPU3' has no"),
        (HEAD + ROW0 + ROW1 + ROW1, "line 4: a second row of GPU1"),
        (HEAD + ROW0 + ROW1 + "GPU2\tSYS\tSYS\t X \tPIX\t1\n", "line 4: the row of GPU2 has 'PIX'"),
        (HEAD + ROW0 + ROW1 + "\nLegend:\n", "line 5: the row 'Legend:' where the row of GPU2"),
        (HEAD + ROW0 + ROW1.replace("SYS", "FOO") + ROW2, "line 3: GPU1 to GPU2: 'FOO' is not one"),
        (HEAD + ROW0 + ROW1.replace("PIX", "PXB") + ROW2,
         "line 3: GPU1 to GPU0 is 'PXB', but line 2 says 'PIX': the matrix is not symmetric"),
        (HEAD + ROW0 + ROW1 + ROW2.replace(" X ", "PIX"), "line 4: GPU2 to GPU2 is 'PIX'; X"),
        (HEAD + ROW0.replace("SYS", "X") + ROW1 + ROW2, "line 2: GPU0 to GPU2 is 'X'; X stands"),
        ("GPU0 GPU0\n", "line 1: GPU0 has two columns"),
        (" ".join(f"GPU{i}" for i in range(257)), "line 1: 257 cards"),
    ],
)  # fmt: skip
def test_a_broken_text_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(BadTopoText, match=re.escape(said)):
        parse(text.encode())


@given(st.binary(max_size=200) | st.text("GPUNICX01 \t\n,-SYPB\x1b[m").map(str.encode))
def test_any_bytes_are_a_matrix_or_a_line(data: bytes) -> None:
    found = answer(data)
    assert isinstance(found, tuple) or re.fullmatch(r"line \d+: .+", str(found))


def test_rows_in_another_order_and_numbers_with_gaps_are_brought_into_order() -> None:
    text = "GPU11 GPU2\nGPU11 X PHB\nGPU2 PHB X\n"
    node = parse(text.encode())
    assert [each.minor for each in node.cards] == [2, 11]
    assert node.links == (("X", "PHB"), ("PHB", "X"))


def test_cells_that_a_terminal_glued_are_taken_apart() -> None:
    text = (
        "\tGPU0\tGPU1\tNIC8NIC9\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tSYS\tNODEPXB\t0-3\t0\n"
        "GPU1\tSYS\t X \tSYS\tSYS\t4-7\t1\n"
        "NIC8\tNODE\tSYS\t X \tNODE\nNIC9\tPXB\tSYS\tNODE\t X\n"
    )
    assert [each.numa for each in parse(text.encode()).cards] == [0, 1]


def test_rows_of_mig_devices_without_a_column_are_passed_over() -> None:
    text = "\tGPU0\tGPU1\nGPU0\t X \tPIX\nMIG 1g.10gb\tPIX\nGPU1\tPIX\t X \n"
    assert parse(text.encode()).links == (("X", "PIX"), ("PIX", "X"))


def test_a_blank_list_of_cpus_does_not_move_the_numa_node() -> None:
    # rapidsai/dask-cuda issue 1381: a job that may use the CPUs of one socket only
    text = (
        "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
        "GPU0     X      SYS     0-15,56-71      0               N/A\n"
        "GPU1    SYS      X                      1               N/A\n"
    )
    assert [each.numa for each in parse(text.encode()).cards] == [0, 1]


@pytest.mark.parametrize(
    ("cells", "numas"),
    [
        (("0-63\t0-1", "0-63\t0-1"), [None, None]),  # a range says not which
        (("0-63\t\tN/A", "0-63\t\tN/A"), [None, None]),
        (("0-3\t2", "4-7\t10"), [2, 10]),
        (("\t1", "\t0"), [1, 0]),
    ],
)
def test_numa_nodes_are_read_where_they_are_one(
    cells: tuple[str, str], numas: list[int | None]
) -> None:
    text = (
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
        f"GPU0\t X \tSYS\t{cells[0]}\nGPU1\tSYS\t X \t{cells[1]}\n"
    )
    assert [each.numa for each in parse(text.encode()).cards] == numas


@pytest.mark.parametrize(
    ("lists", "numas"),
    [
        (("16-31,48-63", "0-15, 32-47"), [1, 0]),
        (("0-63", "0-63"), [None, None]),
        (("0-15", "0-31"), [None, None]),  # not two nodes: they share CPUs
        (("0-15", ""), [None, None]),
    ],
)
def test_without_a_numa_column_disjoint_lists_of_cpus_are_nodes(
    lists: tuple[str, str], numas: list[int | None]
) -> None:
    text = (
        "\tGPU0\tGPU1\tCPU Affinity\n"
        f"GPU0\t X \tPHB\t{lists[0]}\nGPU1\tPHB\t X \t{lists[1]}\nLegend:\n"
    )
    assert [each.numa for each in parse(text.encode()).cards] == numas


def test_what_the_text_does_not_say_is_told() -> None:
    node = parse(read("one-card"), name="n", model="NVIDIA T4", memory_bytes=16 << 30)
    assert (node.name, node.cards[0].model, node.cards[0].memory_units) == ("n", "NVIDIA T4", 64)


def test_every_token_of_the_tool_is_understood() -> None:
    tokens = ["X", "PIX", "PXB", "PHB", "NODE", "SOC", "SYS", "NV1", "NV18", "NVB", "NVB2"]
    found = [parse_link(token).token for token in tokens]
    assert found == ["X", "PIX", "PXB", "PHB", "NODE", "SYS", "SYS", "NV1", "NV18", "NV1", "NV2"]
