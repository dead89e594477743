"""`nvidia-smi topo -m` of 15 machines, and the same texts in other forms."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.node import Node
from gpustack.model.topology import card_tree, tree_text
from gpustack.model.topology.card_tree import TreeLevel
from gpustack.model.topology.link_level import parse_link
from gpustack.wire.keys import Keys
from gpustack.wire.nodes import decode_node, encode_devices
from gpustack.wire.topo.parser import BadTopoText, parse
from tests.model.machines import card, link_matrices
from tests.wire.topo.machine_texts import MACHINES, TEXTS, read


def shape(branch: card_tree.Branch) -> str:
    inner = " ".join(shape(child) for child in branch.children)
    if branch.level is TreeLevel.CARD:
        return str(branch.cards[0])
    return inner if branch.level is TreeLevel.ROOT else f"{tree_text.NAMES[branch.level]}({inner})"


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
    assert shape(card_tree.of(node)) == machine.tree
    assert total_cost(node) == machine.cost


@pytest.mark.parametrize("name", MACHINES)
def test_a_texts_matrix_survives_the_annotation_and_the_printer(name: str) -> None:
    node = parse(read(name))
    keys = Keys()
    published = {"metadata": {"annotations": {keys.gpu_devices: encode_devices(node)}}}
    assert decode_node(keys, published) == node
    assert parse(tree_text.matrix(node).encode()) == node


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
    text = tree_text.matrix(drawn)
    read_back = parse(text.encode())
    assert read_back == drawn
    keys = Keys()
    published = {"metadata": {"annotations": {keys.gpu_devices: encode_devices(read_back)}}}
    decoded = decode_node(keys, published)
    assert decoded == drawn
    assert tree_text.matrix(decoded) == text


@pytest.mark.parametrize("name", MACHINES)
def test_blanks_carriage_returns_colours_and_other_lines_change_nothing(name: str) -> None:
    text = read(name).decode()
    node = parse(text.encode())
    assert parse(text.expandtabs(8).encode()) == node
    assert parse(text.replace("\n", "\r\n").encode()) == node
    assert parse(re.sub("(GPU[0-9]+)", "\x1b[1;32m\\1\x1b[0m", text).encode()) == node
    assert parse(("\n" + text.split("\nLegend")[0].strip("\n")).encode()) == node
    assert parse(text.encode("utf-16")) == node
    company = f"$ nvidia-smi topo -m\n2 NICs found, only displaying 1.\n{text}\n$ exit\n"
    assert parse(company.encode()) == node
    assert parse(re.sub("[ \t]+", " ", text).encode()) == node  # a web page folds its blanks
    assert parse(re.sub("^", "> ", text, flags=re.MULTILINE).encode()) == node
    assert parse(re.sub("^", "    ", text, flags=re.MULTILINE).encode()) == node


@pytest.mark.parametrize("escape", ["\x1b", "", "^["])
@pytest.mark.parametrize("name", ["dgx-1", "dgx-a100", "mig"])
def test_colours_whose_escape_was_lost_in_copying_change_nothing(name: str, escape: str) -> None:
    text = read(name).decode().replace("\x1b[4m", "").replace("\x1b[0m", "")
    heading, rows = text.split("\n", 1)
    underlined = f"{escape}[4m{heading}{escape}[0m\n{rows}"
    searched = underlined.replace("GPU", f"{escape}[01;31m{escape}[KGPU{escape}[m{escape}[K")
    assert parse(underlined.encode()) == parse(searched.encode()) == parse(read(name))


@pytest.mark.parametrize("name", MACHINES)
def test_the_rows_of_cards_alone_are_enough(name: str) -> None:
    text = read(name).decode()
    found = "".join(line for line in text.splitlines(keepends=True) if "GPU" in line)
    assert parse(found.encode()) == parse(read(name))


SMALL = "\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n"


@pytest.mark.parametrize("between", ["", "\nLegend:\n\n", "$ ssh other nvidia-smi topo -m\n"])
def test_texts_of_two_machines_are_refused_and_the_same_twice_is_not(between: str) -> None:
    assert parse((SMALL + between + SMALL).encode()).links == (("X", "PIX"), ("PIX", "X"))
    second = SMALL + between + SMALL + between + SMALL.replace("PIX", "SYS")
    number = second[: second.rindex("\tGPU0")].count("\n") + 1
    with pytest.raises(BadTopoText, match=f"line {number}: a second matrix begins here"):
        parse(second.encode())


def test_a_matrix_of_peer_access_behind_the_text_is_passed_over() -> None:
    peers = " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n\nLegend:\n"
    assert parse((SMALL + peers).encode()) == parse(SMALL.encode())


def test_every_card_name_that_is_read_makes_a_valid_annotation() -> None:
    keys = Keys()
    node = parse(b"\tGPU0\tGPU999999\nGPU0\t X \tPIX\nGPU999999\tPIX\t X \n")
    published = {"metadata": {"annotations": {keys.gpu_devices: encode_devices(node)}}}
    assert decode_node(keys, published) == node


def test_rows_in_another_order_and_numbers_with_gaps_are_sorted() -> None:
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


def test_nvlinks_that_a_terminal_glued_are_taken_apart() -> None:
    text = "\tGPU0\tGPU1NIC0\nGPU0\t X \tNV18PXB\nGPU1\tNV18\t X PXB\nNIC0\tPXB\tPXB\t X \n"
    assert parse(text.encode()).links == (("X", "NV18"), ("NV18", "X"))


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
    # The same with the tool's own tabs, where the blank cell is one tab, narrower than its title.
    text = (
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tSYS\t44-51,148-155\t0\t\tN/A\nGPU1\tSYS\t X \t\t1\t\tN/A\n"
    )
    assert [each.numa for each in parse(text.encode()).cards] == [0, 1]


def test_a_card_of_windows_linux_has_no_affinity_at_all() -> None:
    text = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t\t\tN/A\n"
    assert [each.numa for each in parse(text.encode()).cards] == [None]


@pytest.mark.parametrize(
    ("cells", "numas"),
    [
        (("0-63\t0-1", "0-63\t0-1"), [None, None]),  # a range names no single node
        (("0-63\t\tN/A", "0-63\t\tN/A"), [None, None]),
        (("0-3\t2", "4-7\t10"), [2, 10]),
        (("\t1", "\t0"), [1, 0]),
        (("0,2,4,\t1", "1,3,5,\t0"), [1, 0]),  # a list that the tool cut short
        (("0-31\t\tN/A", "32-63\t\tN/A"), [0, 1]),  # no NUMA in the kernel, but the lists differ
        (("0-3\t" + "9" * 5000, "4-7\t1"), [None, 1]),
        # sgl-project/sglang issue 11208: GB200, whose cards' memory makes NUMA nodes, too
        (("0-71\t0,3-9,11-17\t\t2", "72-143\t1,19-25,27-33\t\t18"), [0, 1]),
        (("0-71\t0,3-9,11-17\t\t2", "0-71\t0,3-9,11-17\t\t10"), [None, None]),
    ],
)
def test_a_numa_node_is_read_where_a_card_has_exactly_one(
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


def test_arguments_give_what_the_text_lacks() -> None:
    node = parse(read("one-card"), name="n", model="NVIDIA T4", memory_bytes=16 << 30)
    assert (node.name, node.cards[0].model, node.cards[0].memory_units) == ("n", "NVIDIA T4", 64)


def test_every_token_of_the_tool_is_understood() -> None:
    tokens = ["X", "PIX", "PXB", "PHB", "NODE", "SOC", "SYS", "NV1", "NV18", "NVB", "NVB2"]
    found = [parse_link(token).token for token in tokens]
    assert found == ["X", "PIX", "PXB", "PHB", "NODE", "SYS", "SYS", "NV1", "NV18", "NV1", "NV2"]
