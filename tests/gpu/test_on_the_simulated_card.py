"""The checks themselves, on the simulated driver: what only they use works before a card is there.

The same files run as with a card, for seconds instead of minutes; figures go into a folder of the
test and bounds don't count, for what this machine's cores do says nothing of a card.
"""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest

from tests.benchmarks import gpu as page
from tests.gpu import bundle, test_memory, test_shares
from tests.hook.container import CARD, CONTEXT_BYTES, SIMGPU, make
from tests.testbed import paths

CHECKS = pathlib.Path(__file__).parent
MODEL = "A card of tests/simgpu"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a machine with one simulated card, and the bundle."""
    make(SIMGPU)
    bundle.gather()
    folder = tmp_path_factory.mktemp("machine")
    devices = folder / "dev"
    devices.mkdir()
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (devices / name).touch()
    card = {"minor": 0, "uuid": CARD, "memory": 8 << 30, "model": MODEL}
    (folder / "cards.json").write_text(json.dumps({"cards": [card]}))
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(SIMGPU / "out" / "lib"),
        "PATH": f"{SIMGPU / 'out' / 'bin'}:{os.environ['PATH']}",
        "SIMGPU_STATE": str(folder / "state"),
        "SIMGPU_DEV": str(devices),
        "SIMGPU_CARDS": str(folder / "cards.json"),
    }
    subprocess.run([SIMGPU / "out" / "bin" / "simgpu", "init"], check=True, env=environment)
    return environment


def checks(
    environment: Mapping[str, str], *arguments: str, first: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the checks as `make gpu` does, by another program if one comes first."""
    command = [
        *first,
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.run(
        [*command, "-m", "gpu", *arguments, str(CHECKS)],
        check=False,
        cwd=paths.REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
    )


pytestmark = pytest.mark.long

# Some of each kind.
CHOSEN = [
    "test_memory.py",
    "alone_holds and 2ms and (30 or 90)",
    "little_of_a_share_is_lost and 2ms and 100",
    "neighbours and 2ms and 30-70",
    "burst or gate or training",
]


@pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root")
def test_the_checks_run_and_their_figures_are_kept(
    machine: dict[str, str], tmp_path: pathlib.Path
) -> None:
    before = page.PAGE.read_text()
    file = tmp_path / "figures.json"
    options = ["--gpu-card=simulated", f"--gpu-figures={file}", "--gpu-seconds=1"]
    done = checks(machine, *options, "-k", " or ".join(f"({each})" for each in CHOSEN))
    assert done.returncode == 0, done.stdout + done.stderr
    assert page.PAGE.read_text() == before
    figures = page.decode(file.read_text())
    assert figures.card == f"simulated card ({MODEL})"
    assert "no mount namespaces" not in figures.machine
    assert list(figures.tables) == [
        test_memory.CONTEXTS,
        test_memory.SELFTEST,
        test_memory.MEMORY,
        test_shares.ALONE,
        test_shares.LOSS,
        test_shares.BESIDE,
        test_shares.ENERGY,
        test_shares.ELASTIC,
        test_shares.COST,
    ]
    assert set(figures.tables[test_shares.ALONE].rows["2 ms"]) == {"30 %", "90 %"}
    assert figures.variables == {"gpustack_agent_hook_context_bytes": CONTEXT_BYTES}
    assert all("not run: " in why for why in figures.not_run.values())
    assert sorted(figures.not_run) == [
        "test_a_training_step_takes_its_share_of_the_time",
        *(f"test_memory_is_refused_where_the_share_ends[{each}]" for each in bundle.RUNTIMES),
    ]


def test_a_simulated_card_is_no_card(machine: dict[str, str]) -> None:
    done = checks(machine)
    assert done.returncode == 0
    assert "not run: no card answers but the simulated one" in last_line(done)


@pytest.mark.skipif(pathlib.Path("/proc/driver/nvidia/version").exists(), reason="here is a card")
def test_without_a_card_one_line_says_so() -> None:
    done = checks({**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0
    assert "not run: no card answers" in last_line(done)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.splitlines()[-1]
