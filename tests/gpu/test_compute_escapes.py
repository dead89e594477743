"""A tenant that hides its GPU time is held to its share by the agent's own account of it.

A share of 20 % beside a neighbour that always has work and has 80 %. The card's driver tells what
each process used by a rule that the agent is told to trust.
"""

import pathlib

import pytest

from tests.gpu import beside, bundle
from tests.gpu.victims import WARM_SECONDS
from tests.hook.container import SIMGPU, make
from tests.hook.root import compiled

NEIGHBOUR = 80.0
POINTS = 3.0  # beyond a share that the agent lets pass
BEYOND_SECONDS = 6.0  # of GPU time beyond share and points, in all
SPANS = 20.0, 10.0

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    make(SIMGPU, "all", "tests")
    bundle.gather()
    compiled(bundle.FOLDER, "taker.c", "taker", str(SIMGPU / "out" / "lib" / "libcuda.so.1"))


@pytest.mark.xfail(strict=True, reason="issue 21, C 1: the agent keeps no account of GPU time")
@pytest.mark.parametrize("program", ["zeroing", "processes", "contexts"])
def test_the_neighbour_of_hidden_gpu_time_keeps_its_share(
    tmp_path: pathlib.Path, program: str
) -> None:
    tenants = (("neighbour", 80, "steady"), ("taker", 20, program))
    first, last = (each["neighbour"] for each in beside.had(tmp_path, "exact", tenants, *SPANS))
    # Nothing was measured of the warm-up: all of it may have been taken.
    whole, least = WARM_SECONDS + SPANS[0], NEIGHBOUR - POINTS
    taken = (whole * least - SPANS[0] * first) / 100
    assert taken <= BEYOND_SECONDS, f"{taken:.1f} s beyond its share"
    assert last >= least
