"""The figures of cards have their place on the page, and leave everything else there alone."""

import pathlib
import re

import pytest
import yaml

from tests.benchmarks import gpu as page
from tests.gpu.report import Report

ROLE = pathlib.Path(__file__).parents[2] / "roles" / "gpustack_agent"
HEAD = "# Benchmarks\n\nof `make bench`\n"


def figures(card: str, text: str) -> page.Figures:
    made = page.Figures(card=card, machine="driver 1", day="2026-01-31")
    made.put("Loss", "100 %", of_2_ms=text)
    return made


def test_a_card_s_figures_are_written_once_however_often_they_come() -> None:
    once = page.placed(HEAD, figures("NVIDIA A", "1.0"))
    assert once.startswith(HEAD)
    assert "| | of 2 ms |\n|---|---|\n| 100 % | 1.0 |\n" in once
    assert page.placed(once, figures("NVIDIA A", "1.0")) == once


def test_a_card_s_new_figures_replace_its_own_alone() -> None:
    both = page.placed(page.placed(HEAD, figures("NVIDIA A", "1.0")), figures("NVIDIA B", "2.0"))
    changed = page.placed(both + "\n## More\n", figures("NVIDIA A", "3.0"))
    assert changed == both.replace("1.0", "3.0") + "\n## More\n"


def test_a_page_that_is_made_anew_keeps_what_cards_wrote() -> None:
    both = page.placed(page.placed(HEAD, figures("NVIDIA A", "1.0")), figures("NVIDIA B", "2.0"))
    assert "\n".join([HEAD, *page.blocks(both)]) == both
    assert page.blocks(HEAD) == []


def test_a_later_run_adds_to_an_earlier_one_and_corrects_it() -> None:
    first, second = figures("NVIDIA A", "1.0"), figures("NVIDIA A", "2.0")
    first.not_run["training"] = "no PyTorch"
    second.put("Loss", "50 %", of_20_us="3.0")
    second.tables["Loss"].note = "Goals: 1, 3."
    first.join(page.decode(page.encode(second)))
    assert "| 100 % | 2.0 | - |\n| 50 % | - | 3.0 |\n\nGoals: 1, 3.\n" in page.block(first)
    assert "- training: no PyTorch" in page.block(first)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"card": "A", "tables": {"T": {"x": 1}}}'])
def test_a_file_that_holds_no_figures_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # json's own where it isn't JSON at all
        page.decode(text)


def test_figures_are_on_the_disk_as_soon_as_they_are_known(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "figures.json"
    first = Report(file, card="NVIDIA A", machine="driver 1", bounds=True)
    first.put("Loss", "100 %", of_2_ms="1.0")
    first.left_out("training", "no PyTorch")
    second = Report(file, card="NVIDIA A", machine="driver 1", bounds=True)
    assert second.figures == page.decode(file.read_text())
    second.has_run("training")
    assert page.decode(file.read_text()).not_run == {}
    other = Report(file, card="NVIDIA A", machine="driver 2", bounds=True)
    assert other.figures.tables == {}, "figures of another driver are no figures of this one"


def test_a_bound_counts_on_a_real_card_only(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "figures.json"
    Report(file, card="simulated", machine="", bounds=False).at_most("error", 4.0, 3.0)
    real = Report(file, card="NVIDIA A", machine="", bounds=True)
    real.at_most("error", 3.0, 3.0)
    with pytest.raises(AssertionError, match=re.escape("error: 4.00, at most 3")):
        real.at_most("error", 4.0, 3.0)


def test_what_the_agent_is_told_is_a_file_of_its_roles_variables(tmp_path: pathlib.Path) -> None:
    report = Report(tmp_path / "figures.json", card="NVIDIA A", machine="driver 1", bounds=True)
    report.tell_agent("gpustack_agent_hook_context_bytes", 519 << 20)
    report.tell_agent("gpustack_agent_collect_gpu_time", False)
    kept = page.decode((tmp_path / "figures.json").read_text())
    folder = tmp_path / "group_vars" / "gpu_nodes"
    file = page.write_variables(folder, kept)
    assert file == folder / "measured.yml"
    written = yaml.safe_load(file.read_text())
    assert written == kept.variables
    spec = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())
    types = {name: each["type"] for name, each in spec["argument_specs"]["main"]["options"].items()}
    assert {name: types[name] for name in written} == {
        "gpustack_agent_hook_context_bytes": "int",
        "gpustack_agent_collect_gpu_time": "bool",
    }
    assert "gpustack_agent_collect_gpu_time: false" in page.block(kept)


def test_figures_without_a_measurement_of_it_tell_the_agent_nothing(tmp_path: pathlib.Path) -> None:
    assert page.write_variables(tmp_path / "none", figures("NVIDIA A", "1.0")) is None
    assert not (tmp_path / "none").exists()
