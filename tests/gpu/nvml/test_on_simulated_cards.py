"""What NVML counts is found out on simulated cards, and what the agent is told of it reaches it."""

import os
import pathlib

import pytest
import yaml

from tests.benchmarks import gpu as page
from tests.gpu import bundle, victims
from tests.gpu.nvml import test_gone_maker
from tests.gpu.nvml.test_gone_maker import SHARED_MIB
from tests.gpu.test_on_the_simulated_card import checks
from tests.hook.container import SIMGPU, make

pytestmark = pytest.mark.long

# No other process of this machine delays the tenants, as tests.gpu.victims.comes_first: what one
# lacks for want of a processor would look like an error of the driver's count.
FIRST = ("chrt", "--rr", "1") if os.geteuid() == 0 else ()


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    make(SIMGPU, "all", "tests")
    bundle.gather()


def checked(folder: pathlib.Path, rule: str, chosen: str, *options: str) -> page.Figures:
    """Run some of the checks as `make gpu` does, and return their figures."""
    file = folder / "figures.json"
    options = ("--gpu-card=simulated", f"--gpu-figures={file}", "--gpu-seconds=1", *options)
    environment = dict(victims.started(folder, rule))
    environment["PATH"] = f"{SIMGPU / 'out' / 'bin'}:{environment['PATH']}"
    done = checks(environment, *options, "-k", chosen, first=FIRST)
    assert done.returncode == 0, done.stdout + done.stderr
    return page.decode(file.read_text())


@pytest.mark.clock
@pytest.mark.parametrize("rule", ["exact", "late", "seconds", "samples", "samples-last"])
def test_the_agent_is_told_by_which_rule_its_card_counts(tmp_path: pathlib.Path, rule: str) -> None:
    folder = tmp_path / "group_vars" / "gpu_nodes"
    figures = checked(tmp_path, rule, "count_is_good", f"--gpu-variables={folder}")
    (table,) = figures.tables.values()
    assert table.note.startswith(f"Rule: {rule} ")
    told = yaml.safe_load((folder / "measured.yml").read_text())
    assert told == {"gpustack_agent_collect_gpu_time": rule in victims.GOOD_RULES}


def test_memory_whose_maker_is_gone_is_found_where_nvml_shows_it(tmp_path: pathlib.Path) -> None:
    table = checked(tmp_path, "exact", "maker").tables[test_gone_maker.TITLE]
    size = str(SHARED_MIB)
    assert [[*row.values()] for row in table.rows.values()] == [
        [size, "0", "0"],
        ["0", "0", size],
        ["0", size, "0"],
    ]
