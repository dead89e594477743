"""`gpustack topo` on texts, on a pipe and on hosts; bad input is one line that names the place."""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import types

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.adapters import nvml
from gpustack.cli.main import main
from gpustack.wire import schemas
from gpustack.wire.keys import Keys
from gpustack.wire.nodes import decode_node
from tests.adapters.nvml.fake_driver import FakeDriver, cards
from tests.fakes.nvml import FakeNvml, card

TEXTS = pathlib.Path(__file__).parents[1] / "data" / "topo"
DGX = str(TEXTS / "dgx-a100.txt")
P40 = str(TEXTS / "p40-7.txt")

Output = pytest.CaptureFixture[str]


def said(capsys: Output, *arguments: str) -> str:
    assert main(["topo", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: Output, *arguments: str) -> str:
    """The one line on stderr of wrong use or unreadable input."""
    assert main(["topo", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_a_text_is_drawn_for_people(capsys: Output) -> None:
    lines = said(
        capsys, "--from-text", DGX, "--model", "A100", "--memory-mib", "40960"
    ).splitlines()
    assert lines[:3] == ["8 cards", "`-- SYS", "    |-- NODE"]
    assert lines[3] == "    |   |-- GPU0  A100  40960 MiB  NUMA 3  NV12 to 1-7"


def test_the_formats_are_the_originals_graph_the_matrix_and_the_costs(capsys: Output) -> None:
    graph = said(capsys, "--from-text", P40, "--format", "tree", "--memory-mib", "22919")
    assert graph.startswith("ROOT:7\n|---PHB (aval: 7, pids: [], usedMemory: 0, totalMemory: 1682")
    costs = said(capsys, "--from-text", P40, "--format", "cost").splitlines()
    assert (costs[0], costs[3], costs[-1]) == ("ROOT:7:0", "|  |  |--GPU0:1:1", "|  |  |--GPU6:1:2")
    matrix = said(capsys, "--from-text", P40, "--format", "matrix")
    assert matrix.splitlines()[1] == "GPU0\t X \tPIX\tPIX\tPHB\tPHB\tPHB\tPHB\t0"


def test_the_annotation_is_the_only_output_and_decodes_as_a_node(capsys: Output) -> None:
    model = ("--model", "NVIDIA A100-SXM4-40GB", "--memory-mib", "40960")
    text = said(capsys, "--from-text", DGX, *model, "--annotation")
    assert text.count("\n") == 1
    keys = Keys()
    node = decode_node(keys, {"metadata": {"annotations": {keys.gpu_devices: text}}})
    assert {each.memory_units for each in node.cards} == {160}
    assert {each.model for each in node.cards} == {"NVIDIA A100-SXM4-40GB"}
    assert [each.numa for each in node.cards] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert node.links[0][1] == "NV12"


@pytest.mark.parametrize("path", sorted(TEXTS.glob("*.txt")), ids=lambda path: path.stem)
def test_json_keeps_to_its_published_schema(capsys: Output, path: pathlib.Path) -> None:
    value = json.loads(said(capsys, "--from-text", str(path), "-o", "json"))
    assert schemas.problems(schemas.load("topo"), value) == []
    assert value["tree"]["minors"] == [each["minor"] for each in value["cards"]]


def test_json_tells_links_costs_and_tree(capsys: Output) -> None:
    value = json.loads(said(capsys, "--from-text", DGX, "-o", "json"))
    assert value["links"][0][:2] == ["X", "NV12"]
    assert value["costs"][0] == [0, 2, 2, 2, 2, 2, 2, 2]
    (machine,) = value["tree"]["children"]
    assert (machine["level"], machine["children"][3]["minors"]) == ("SYS", [6, 7])


def test_a_pipe_is_read(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pathlib.Path(P40).read_bytes()
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(data)))
    assert said(capsys, "--from-text", "-", "--format", "cost").startswith("ROOT:7:0\n|--PHB:7:0\n")


def test_a_text_cut_off_in_the_middle_is_refused_with_file_and_line(
    capsys: Output, tmp_path: pathlib.Path
) -> None:
    text = pathlib.Path(DGX).read_text()
    file = tmp_path / "cut.txt"
    file.write_text(text[: text.index("GPU5\tNV12") + 20])
    error = refused(capsys, "--from-text", str(file))
    assert error == (
        f"gpustack: {file}: line 7: the row of GPU5 is cut off: 3 of 20 cells; "
        "give all that `nvidia-smi topo -m` prints\n"
    )


def test_a_broken_pipe_of_text_is_refused_as_standard_input(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = io.BytesIO(b"GPU0 GPU1\nGPU0 X PIX\nGPU1 PHB X\n")
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=data))
    error = refused(capsys, "--from-text", "-", "--annotation")
    assert error.startswith("gpustack: standard input: line 3: GPU1 to GPU0 is 'PHB', but line 2")


def test_a_file_that_is_not_there_is_named(capsys: Output, tmp_path: pathlib.Path) -> None:
    missing = tmp_path / "absent.txt"
    assert refused(capsys, "--from-text", str(missing)) == (
        f"gpustack: {missing}: No such file or directory\n"
    )


def test_an_option_that_describes_a_text_needs_a_text(capsys: Output) -> None:
    assert "--from-text" in refused(capsys, "--model", "A100")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--annotation", "--format", "tree"),
        ("--annotation", "-o", "json"),
        ("--format", "cost", "-o", "json"),
        ("--memory-mib", "-1"),
        ("--memory-mib", "8589934592"),
    ],
)
def test_wrong_use_is_status_two(capsys: Output, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["topo", "--from-text", DGX, *arguments])
    assert capsys.readouterr().err.startswith("gpustack topo: argument ")


def test_a_host_is_read_through_nvml(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "Nvml", lambda: FakeNvml(card(0), card(1, numa=1)))
    value = json.loads(said(capsys, "-o", "json"))
    assert schemas.problems(schemas.load("topo"), value) == []
    assert (value["driver"], value["cards"][1]["bus"]) == ("535.261.03", "0000:0f:00.0")
    assert (
        said(capsys, "--format", "cost") == "ROOT:2:0\n|--SYS:2:0\n|  |--GPU0:1:1\n|  |--GPU1:1:1\n"
    )


def test_a_host_without_cards_ends_with_status_one(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "Nvml", FakeNvml)
    assert main(["topo"]) == 1
    assert capsys.readouterr().err == "gpustack: this host has no card\n"


def test_a_host_without_a_driver_is_one_line(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> nvml.Nvml:
        raise nvml.NvmlError("NVML does not start: NVML Shared Library Not Found")

    monkeypatch.setattr(nvml, "Nvml", absent)
    assert refused(capsys) == (
        "gpustack: NVML does not start: NVML Shared Library Not Found; where the cards are in "
        "another host, give what `nvidia-smi topo -m` prints there with --from-text\n"
    )


def test_a_host_without_the_binding_is_told_which_package_it_needs(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("gpustack.adapters.nvml")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    error = refused(capsys)
    assert "nvidia-ml-py" in error
    assert "--from-text" in error


PIPED = [sys.executable, "-m", "gpustack.cli.main", "topo", "--from-text", "-"]


def test_a_reader_that_leaves_early_is_no_error() -> None:
    """A real pipe; its reader is gone before the first line."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed, pathlib.Path(DGX).open("rb") as text:
        done = subprocess.run(PIPED, stdin=text, stdout=closed, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize("form", ["tree", "matrix", "cost"])
def test_the_output_has_no_colour(capsys: Output, form: str) -> None:
    """The text's own heading is underlined; the output's is not."""
    assert "\x1b" not in said(capsys, "--from-text", DGX, "--format", form)


@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_one_line_that_names_the_place(data: bytes) -> None:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(data)))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(["topo", "--from-text", "-"])
    assert status in (0, 2)
    if status == 2:
        assert re.fullmatch(r"gpustack: standard input: line \d+: [^\n]+\n", err.getvalue())


def test_an_annotation_of_a_host_tells_the_paths_that_nvlink_hides(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeDriver(
        cards=cards(2),
        levels={(0, 1): pynvml.NVML_TOPOLOGY_MULTIPLE},
        far_ends={0: [cards(2)[1].bus], 1: [cards(2)[0].bus]},
    ).install(monkeypatch)
    value = json.loads(said(capsys, "--annotation"))
    assert (value["links"][0][1], value["paths"][0][1]) == ("NV1", "PXB")
    assert schemas.problems(schemas.load("gpu-devices"), value) == []
    assert "|---PXB" in said(capsys, "--format", "tree")


def test_help_names_every_option(capsys: Output) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["topo", "--help"])
    text = capsys.readouterr().out
    options = ("--from-text", "--memory-mib", "--model", "--annotation", "--format", "--output")
    assert [option for option in options if option not in text] == []
