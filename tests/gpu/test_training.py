"""PyTorch in a share: its steps, its idea of the card's memory, and its way to be refused."""

import json
import pathlib
import subprocess
import sys
from typing import Final

import pytest

from tests.gpu.host import Host, Programs
from tests.gpu.work import Watch

pytestmark = pytest.mark.gpu
TRAINING: Final = pathlib.Path(__file__).parent / "probes" / "training.py"
TITLE: Final = "A training step of PyTorch, a second"


@pytest.fixture(scope="session")
def torch() -> str:
    """Python that has a PyTorch for CUDA."""
    wanted = "import torch, sys; sys.exit(torch.version.cuda is None)"
    done = subprocess.run([sys.executable, "-c", wanted], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"not run: {sys.executable} has no PyTorch for CUDA")
    return sys.executable


def test_a_training_step_takes_its_share_of_the_time(host: Host, watch: Watch, torch: str) -> None:
    rows: dict[str, Programs] = {
        "no hook": watch.bare,
        "100 %": host.container("whole", cores=100),
        "50 %": host.container("half", cores=50),
    }
    usual: dict[str, float] = {}
    for name, programs in rows.items():
        found = json.loads(programs.run(torch, TRAINING, str(watch.seconds), timeout=300))
        usual = usual or found
        watch.report.put(
            TITLE,
            name,
            eager=f"{found['eager']:.1f}",
            of_no_hook=f"{100 * found['eager'] / usual['eager']:.1f} %",
            as_a_graph=f"{found['graph']:.1f}",
            of_it_without_hook=f"{100 * found['graph'] / usual['graph']:.1f} %",
        )
        watch.report.note(TITLE, f"PyTorch {found['torch']}; a small transformer, AdamW.")
        assert found["refused"], "PyTorch was given more than there is"
        if programs is not watch.bare:
            assert found["total_bytes"] == host.share_bytes
