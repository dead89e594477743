"""The CUDA application of the cluster's image, run here on the simulated driver."""

import json
import os
import pathlib
import signal
import subprocess
import typing

import pytest

from tests.testbed import paths
from tests.testbed.artifacts import images

SIMGPU = paths.REPOSITORY / "tests" / "simgpu"
GIB = 1 << 30
CARD_BYTES = 80 * GIB


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which the simulated driver has two default cards."""
    subprocess.run(["make", "--silent", "-C", SIMGPU], check=True)
    folder = tmp_path_factory.mktemp("simgpu")
    devices = folder / "dev"
    devices.mkdir()
    for node in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (devices / node).touch()
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(SIMGPU / "out" / "lib"),
        "SIMGPU_STATE": str(folder / "state"),
        "SIMGPU_DEV": str(devices),
        "SIMGPU_CARDS": str(folder / "none.json"),
    }
    subprocess.run([SIMGPU / "out" / "bin" / "simgpu", "init"], env=environment, check=True)
    return environment


@pytest.fixture(scope="session")
def workload(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    program = tmp_path_factory.mktemp("workload") / "cuda-workload"
    program.write_bytes(images.compile_program(("gcc",), "cuda_workload.c", "-ldl"))
    program.chmod(0o755)
    return program


def run(workload: pathlib.Path, driver: dict[str, str], *words: str) -> list[dict[str, typing.Any]]:
    done = subprocess.run(
        [workload, *words], env=driver, capture_output=True, text=True, check=True, timeout=30
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_report_shows_all_devices_and_each_allocation(
    workload: pathlib.Path, driver: dict[str, str]
) -> None:
    (report,) = run(workload, driver, "--allocate", "1024", "--try", "90000", "--try", "2048")

    assert report["count"] == 2
    assert [device["total"] for device in report["devices"]] == [CARD_BYTES, CARD_BYTES]
    assert len({device["uuid"] for device in report["devices"]}) == 2
    kept = report["allocations"][0]
    assert (kept["mib"], kept["result"]) == (1024, "CUDA_SUCCESS")
    assert report["devices"][0]["free"] - kept["free"] == GIB
    assert [each["result"] for each in report["tries"]] == [
        "CUDA_ERROR_OUT_OF_MEMORY",
        "CUDA_SUCCESS",
    ]
    assert report["tries"][1]["free"] == kept["free"], "a try that was not freed"


def test_kernels_take_as_long_as_asked(workload: pathlib.Path, driver: dict[str, str]) -> None:
    _, launched = run(workload, driver, "--kernel-us", "50000", "--seconds", "1")

    assert launched["result"] == "CUDA_SUCCESS"
    # one after the other: never more of them than fit, whatever the machine's load
    assert 1 <= launched["launches"] <= launched["seconds"] / 0.05


def test_held_memory_is_held_until_the_signal(
    workload: pathlib.Path, driver: dict[str, str]
) -> None:
    words = [str(workload), "--allocate", "1024", "--hold"]
    with subprocess.Popen(words, env=driver, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        held = json.loads(holder.stdout.readline())["allocations"][0]
        (seen,) = run(workload, driver)
        assert seen["devices"][0]["free"] < held["free"]
        holder.send_signal(signal.SIGTERM)
        assert holder.wait(timeout=10) == 0


def test_a_machine_without_the_driver_is_said_to_be_one(workload: pathlib.Path) -> None:
    done = subprocess.run([workload], env={}, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert json.loads(done.stdout)["error"] == "dlopen"


@pytest.mark.parametrize(
    "words", [["--allocate", "much"], ["--try", "-1"], ["word"], ["--kernel-us", "9999999999"]]
)
def test_a_wrong_call_says_how_to_call_it(workload: pathlib.Path, words: list[str]) -> None:
    done = subprocess.run([workload, *words], env={}, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "usage: cuda-workload" in done.stderr
