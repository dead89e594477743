"""Programs of other projects, with the hook and without: the same results, errno and context.

Their share is the whole card, so that they must see the same sizes too.
"""

import json
import pathlib
import subprocess
import sys

import pytest

from gpustack.adapters import mapped
from tests.hook.container import CARD_BYTES, MIB, ROOT, Container, share
from tests.hook.drivers import driver_files
from tests.hook.drivers.wheels import installed

pytestmark = pytest.mark.long
OUT_OF_MEMORY = 2
PROBES = pathlib.Path(__file__).parents[1] / "probes"


@pytest.fixture
def alone(container: Container) -> Container:
    """The container's share is the card."""
    mapped.publish_limits(container.folder / "limits", share(CARD_BYTES))
    return container


def trace(
    container: Container, wheels: str, probe: str, *arguments: str, **environment: str
) -> list[list[object]]:
    """Run a client and return its trace."""
    result = subprocess.run(
        [sys.executable, str(PROBES / probe), *arguments],
        check=False, cwd=container.folder, capture_output=True, text=True, timeout=120,
        env=container.environment | {"PYTHONPATH": f"{installed(wheels)}:{ROOT}"} | environment,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def assert_same(bare: list[list[object]], hooked: list[list[object]]) -> None:
    for plain, got in zip(bare, hooked, strict=False):
        assert got == plain
    assert len(hooked) == len(bare)


@pytest.mark.parametrize(
    ("wheels", "probe"),
    [
        ("bindings-12.9", "bindings.py"),
        ("bindings-13", "bindings.py"),
        ("numba", "numba_driver.py"),
    ],
)
def test_a_driver_client_does_the_same_with_the_hook(
    alone: Container, wheels: str, probe: str
) -> None:
    bare = trace(alone, wheels, probe, LD_PRELOAD="")
    hooked = trace(alone, wheels, probe)
    assert_same(bare, hooked)
    # 8 GiB less a context and the client's memory, in steps of 256 MiB
    assert [31, OUT_OF_MEMORY] in [line[:2] for line in hooked]


def test_a_driver_client_meets_its_share(container: Container) -> None:
    lines = trace(container, "bindings-12.9", "bindings.py")
    # 2 GiB less a context, in steps of 256 MiB
    assert [7, OUT_OF_MEMORY] in [line[:2] for line in lines]
    assert any(f"{each}" == str(2048 * MIB) for line in lines for each in _flat(line))
    assert not any(f"{each}" == str(CARD_BYTES) for line in lines for each in _flat(line))


def _flat(line: object) -> list[object]:
    if isinstance(line, list):
        return [each for part in line for each in _flat(part)]
    return [line]


RUNTIMES = {
    "cudart-11.8": "libcudart.so.11.0",
    "cudart-12.9": "libcudart.so.12",
    "cudart-13": "libcudart.so.13",
}


def runtime(wheels: str) -> str:
    (library,) = installed(wheels).rglob(RUNTIMES[wheels])
    return str(library)


# The call at which each runtime stops. On the driver's files without a card the older ones resolve
# all their names through the gates and stop at cuInit; on the simulated driver they get past it,
# and stop where the driver's private tables are refused to them (cuGetExportTable). The newest asks
# either driver for its version only.
STOPS = [
    ("535", "cudart-11.8", "cudaErrorNoDevice"),
    ("535", "cudart-12.9", "cudaErrorNoDevice"),
    ("535", "cudart-13", "cudaErrorInsufficientDriver"),
    ("simulated", "cudart-11.8", "cudaErrorSymbolNotFound"),
    ("simulated", "cudart-12.9", "cudaErrorSymbolNotFound"),
    ("simulated", "cudart-13", "cudaErrorInsufficientDriver"),
]


@pytest.mark.parametrize(("driver_series", "wheels", "stops_with"), STOPS)
def test_a_runtime_stops_where_it_does_without_the_hook(
    alone: Container, driver_series: str, wheels: str, stops_with: str
) -> None:
    more = {}
    if driver_series != "simulated":
        more["LD_LIBRARY_PATH"] = str(driver_files.libraries(driver_series))
    bare = trace(alone, wheels, "runtime.py", runtime(wheels), LD_PRELOAD="", **more)
    hooked = trace(alone, wheels, "runtime.py", runtime(wheels), **more)
    assert_same(bare, hooked)
    assert hooked[0][:3] == ["cudaDriverGetVersion", "cudaSuccess", 12020]
    assert [line[1] for line in hooked[1:]] == [stops_with] * 5
