"""`nvidia-smi topo -m` texts that are cut off, wrong in a cell, or something else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.topology import tree_text
from gpustack.wire.topo.affinity_columns import columns
from gpustack.wire.topo.parser import BadTopoText, parse
from tests.wire.topo.machine_texts import MACHINES, answer, read


@pytest.mark.parametrize(
    ("end", "said"),
    [("NIC0\tPIX\t X \tSYS\n", "no row of NIC1"), ("NIC0\tPI", "of NIC0 is cut off: 1 of 3"),
     ("NI", "'NI' where the row of NIC0"), ("NIC1\tSYS\tSYS\t X \n", "no row of NIC0")],
)  # fmt: skip
def test_rows_of_some_nics_alone_are_a_text_that_is_cut_off(end: str, said: str) -> None:
    cards = "\tGPU0\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tPIX\tSYS\t0-3\n"
    assert parse(cards.encode()).links == (("X",),)
    with pytest.raises(BadTopoText, match=said) as caught:
        parse((cards + end).encode())
    assert "cut off" in str(caught.value)


@pytest.mark.parametrize("name", MACHINES)
def test_a_text_cut_off_anywhere_is_refused_or_its_matrix_is_whole(name: str) -> None:
    text = read(name)
    links = parse(text).links
    rows = text.index(b"\nLegend")
    for end in range(0, rows, rows // 300 + 1):
        found = answer(text[:end])
        assert found == links or re.match(r"line \d+: ", str(found))


@pytest.mark.parametrize("name", [name for name in MACHINES if name != "one-card"])
def test_a_text_cut_off_in_the_middle_of_its_cards_is_refused(name: str) -> None:
    text = read(name)
    last_card = text.rindex(b"\nGPU")
    with pytest.raises(BadTopoText, match="cut off"):
        parse(text[: last_card // 2])


WRONG = ["X", "PIX", "PXB", "PHB", "NODE", "SYS", "NV1", "NV7", "NV0", "NV100", "NV#", "x", "pix",
         "N/A", "OK", "0-3", "?", "GPU0"]  # fmt: skip


@given(st.data(), st.sampled_from(sorted(MACHINES)), st.sampled_from(WRONG))
def test_a_changed_cell_of_two_cards_is_refused_with_its_line(
    data: st.DataObject, name: str, wrong: str
) -> None:
    node = parse(read(name))
    size = len(node.cards)
    row, column = (data.draw(st.integers(0, size - 1)) for _ in range(2))
    lines = tree_text.matrix(node).splitlines()
    cells = lines[1 + row].split("\t")
    if wrong == cells[1 + column].strip():
        wrong = "FOO"
    cells[1 + column] = wrong
    lines[1 + row] = "\t".join(cells)
    found = answer("\n".join(lines).encode())
    # The message names the later one of two rows that contradict each other.
    assert re.match(rf"line ({row + 2}|{column + 2}): GPU\d+ to GPU\d+", str(found))
    assert f"{wrong!r}" in str(found)


@given(st.data(), st.sampled_from(sorted(MACHINES)), st.booleans())
def test_a_cell_more_or_less_is_refused(data: st.DataObject, name: str, more: bool) -> None:
    node = parse(read(name))
    lines = tree_text.matrix(node).splitlines()
    row, column = (data.draw(st.integers(1, len(node.cards))) for _ in range(2))
    cells = lines[row + 0].split("\t")
    cells[column : column + 1] = ["SYS", cells[column]] if more else []
    lines[row] = "\t".join(cells)
    assert re.match(rf"line {row + 1}: ", str(answer("\n".join(lines).encode())))


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
        ("GPU0 GPU00\nGPU0 X PIX\nGPU00 PIX X\n", "line 1: 'GPU00' is not the name of a card"),
        ("GPU0 GPU1048576\n", "line 1: 'GPU1048576' is not the name of a card"),
        (" \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n", "this is of `topo -p2p`, give all"),
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


def test_a_heading_is_read_up_to_its_third_title() -> None:
    """A text of 256 KB with nothing but titles took 6 s."""
    assert len(columns("\tCPU Affinity" * 10)) == 3
