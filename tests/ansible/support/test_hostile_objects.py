"""What nodes and hosts write neither keeps others out of a report nor speaks for them."""

import json
import pathlib
import tarfile
from typing import Any

import pytest

from tests.ansible import plugins

filters = plugins.load("roles/support/filter_plugins/support_objects.py")
pack = plugins.load("roles/support/library/support_pack.py")
GOOD = {"files": {"host.json": "{}"}, "left_out": [{"what": "agent.yml", "why": "none"}]}


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


def packed(folder: pathlib.Path, answers: dict[str, Any], limit: int = 10_000) -> dict[str, str]:
    """Return the members of the archive of these answers, with the members' names as they are."""
    for name, one in answers.items():
        (folder / f"{name}.json").write_text(one if isinstance(one, str) else json.dumps(one))
    pack.write(
        str(folder / "report.tar.gz"), pack.packed(pack.read(folder), [*answers, "gone"], limit)
    )
    with tarfile.open(folder / "report.tar.gz") as tar:
        return {
            member.name: file.read().decode()
            for member in tar.getmembers()
            if (file := tar.extractfile(member))
        }


@pytest.mark.parametrize(
    "answer",
    [
        {"files": {"a": 1}, "left_out": []},
        {"files": {"a": "\ud800"}, "left_out": []},
        {"files": [], "left_out": []},
        {"files": {}, "left_out": [{}]},
        {"files": {}, "left_out": ["a"]},
        {"files": {}, "left_out": [{"what": "a", "why": "\udfff"}]},
        {"files": {}},
        [],
        "[" * 100_000,
        "nothing",
        {"files": {"../../../../home/dev/.bashrc": "rm"}, "left_out": []},
        {"files": {"../gpu2/host.json": "forged"}, "left_out": []},
        {"files": {"/etc/passwd": "x"}, "left_out": []},
        {"files": {"a\n": "x"}, "left_out": []},
        {"files": {f"f{at}": "x" * 100 for at in range(400)}, "left_out": []},
        {"files": {}, "left_out": [{"what": "a", "why": "b"}] * 400},
    ],
)
def test_a_host_that_answers_otherwise_is_left_out_by_name(
    tmp_path: pathlib.Path, answer: Any
) -> None:
    files = packed(tmp_path, {"gpu1": answer, "gpu2": GOOD})
    readme = files.pop("gpustack-support/README.txt")
    assert files == {"gpustack-support/gpu2/host.json": "{}"}
    assert "- gpu1: nothing of it is here: its answer has another form" in readme
    assert "- gpu2/agent.yml: none\n" in readme
    assert "- gone: nothing of it is here: it didn't answer" in readme


def test_a_host_with_much_leaves_the_others_their_part(tmp_path: pathlib.Path) -> None:
    much = {"files": {f"f{at}": "x" * 100 for at in range(99)}, "left_out": []}
    own = {f"log{at}": "y" * 1000 for at in range(3)}
    files = packed(tmp_path, {"gpu1": much, "gpu2": {"files": own, "left_out": []}}, 8000)
    kept = [name.split("/")[1] for name in files if name.count("/") == 2]
    assert (kept.count("gpu2"), kept.count("gpu1")) == (3, 50), "what gpu2 leaves is gpu1's"
    assert (
        "gpu1/f9: its 100 bytes don't fit into 8000 of all" in files["gpustack-support/README.txt"]
    )


def test_a_note_of_a_host_is_one_line_of_its_own(tmp_path: pathlib.Path) -> None:
    note = {"what": "a", "why": "b\n- gpu2: gone\x1b[2J\u2028" + "c" * 9000}
    files = packed(tmp_path, {"gpu1": {"files": {}, "left_out": [note]}})
    (_, line) = files["gpustack-support/README.txt"].partition("Left out here:\n")[2].splitlines()
    assert line.startswith("- gpu1/a: b - gpu2: gone?[2J c")
    assert len(line) < 500
