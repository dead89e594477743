"""gpustack-hook-selftest, as a user reads it, and as programs do."""

import fcntl
import json
import os
import pathlib
import struct
from typing import Any

import pytest

from gpustack.adapters import mapped
from gpustack.wire.mapped import activity, limits
from tests.hook.container import CARD, MIB, SHARE_BYTES, Container, share

FAMILIES = [
    "cuMemAlloc",
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemAllocManaged",
    "cuMemAllocAsync",
    "cuMemCreate",
    "cuArrayCreate",
    "cuCtxSetLimit heap",
]


def report_of(container: Container, *options: str) -> tuple[int, Any]:
    result = container.run(str(container.program), "--json", *options)
    assert result.stderr == ""
    return result.returncode, json.loads(result.stdout)


def test_in_a_share_every_family_is_refused_more_than_is_free(container: Container) -> None:
    status, report = report_of(container, "--quick")
    assert (status, report["holds"], report["problems"]) == (0, True, [])
    assert report["limits"]["devices"][0]["memory_bytes"] == SHARE_BYTES
    (card,) = report["cards"]
    assert (card["uuid"], card["total_bytes"]) == (CARD, SHARE_BYTES)
    attempts = [(each["what"], each["outcome"]) for each in card["attempts"]]
    assert attempts == [*((family, "refused") for family in FAMILIES), ("GPU time", "not tried")]
    assert (report["driver"], report["driver_version"]) == ("535.261.03", 12020)


def test_people_get_words_and_the_same_verdict(container: Container) -> None:
    result = container.run(str(container.program), "--quick")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[-1] == "The limits hold."
    assert any("2048 MiB of memory, 64 MiB for each context; 50 % of the time" in x for x in lines)
    assert any("cuMemCreate" in line and "refused" in line for line in lines)
    assert "cuMemAlloc_v2" not in result.stdout


def test_the_gated_functions_are_those_of_the_list_that_the_driver_has(
    container: Container, gated: frozenset[str], driver: pathlib.Path
) -> None:
    _, report = report_of(container, "--quick")
    listed = container.run(str(container.program), "--quick", "--gated").stdout.split()
    assert {"cuMemAlloc_v2", "cuGetProcAddress_v2", "nvmlDeviceGetMemoryInfo"} <= set(listed)
    assert set(report["gated"]) <= gated & set(listed)
    assert len(report["gated"]) == len(set(report["gated"])) > 80


@pytest.mark.clock
def test_launches_without_a_pause_get_their_share_of_the_time(container: Container) -> None:
    status, report = report_of(container)
    attempt = report["cards"][0]["attempts"][-1]
    assert (status, attempt["what"], attempt["outcome"]) == (0, "GPU time", "refused"), attempt
    assert "50 % are allowed" in attempt["why"]


def test_beside_neighbours_no_kernel_is_timed(container: Container) -> None:
    busy = activity.CardActivity(uuid=CARD, tenants_wanting=2)
    page = activity.Activity(sampled_ns=1, cards=(busy,))
    mapped.publish_activity(container.folder / "activity", page)
    status, report = report_of(container)
    attempt = report["cards"][0]["attempts"][-1]
    assert (status, attempt["outcome"]) == (0, "not tried")
    assert attempt["why"] == "other containers are using the card"


def test_a_driver_that_loads_no_kernel_is_said_to(
    container: Container, build: pathlib.Path
) -> None:
    container.environment["LD_LIBRARY_PATH"] = str(build / "test" / "driver")
    fake = "GPU-00000000-0000-0000-0000-00000000000a", "GPU-00000000-0000-0000-0000-00000000000b"
    (container.folder / "ledger").unlink()
    mapped.create_ledger(container.folder / "ledger", fake)
    one = share(SHARE_BYTES).devices[0]
    devices = tuple(
        limits.DeviceLimit(
            uuid=uuid,
            memory_bytes=512 * MIB,
            compute_percent=one.compute_percent,
            burst_percent=one.burst_percent,
            context_bytes=one.context_bytes,
        )
        for uuid in fake
    )
    mapped.publish_limits(container.folder / "limits", limits.Limits(devices=devices))
    status, report = report_of(container)
    assert (status, report["problems"], report["driver"]) == (0, [], "")
    for card in report["cards"]:
        outcomes = {each["what"]: each["outcome"] for each in card["attempts"]}
        assert outcomes["cuMemCreate"] == "refused"
        assert outcomes["GPU time"] == "not tried"
        assert "can't load a kernel" in card["attempts"][-1]["why"]


def test_the_selftest_fails_without_the_hook(container: Container) -> None:
    container.environment["LD_PRELOAD"] = ""
    status, report = report_of(container)
    assert (status, report["holds"], report["gated"], report["cards"]) == (1, False, [], [])
    assert "nothing is gated" in report["problems"][0]
    assert "ld.so.preload" in report["problems"][0]


def test_limits_that_do_not_hold_are_found(container: Container) -> None:
    opened = limits.Limits(devices=share(SHARE_BYTES).devices, on_error=limits.OnError.OPEN)
    mapped.publish_limits(container.folder / "limits", opened)
    (
        container.folder / "ledger"
    ).unlink()  # the hook charges no memory, and lets every request through
    status, report = report_of(container, "--quick")
    assert (status, report["holds"]) == (1, False)
    assert "ledger is missing" in report["problems"][0]
    granted = [
        each["what"] for each in report["cards"][0]["attempts"] if each["outcome"] == "granted"
    ]
    assert granted == FAMILIES
    assert any("cuMemCreate was granted" in problem for problem in report["problems"])
    text = container.run(str(container.program), "--quick").stdout
    assert text.splitlines()[-1] == "The limits do not hold."


def test_an_overwritten_ledger_is_reported_with_a_cure(container: Container) -> None:
    ledger = container.folder / "ledger"
    ledger.write_bytes(bytes(ledger.stat().st_size))
    status, report = report_of(container, "--quick")
    assert (status, report["holds"]) == (1, False)
    assert report["problems"][0].startswith("ledger holds no ledger of layout 1 to 2: a program of")
    assert report["problems"][0].endswith("until the container is started anew")


def test_a_ledger_that_cannot_be_written_to_is_said_to_be_with_the_reason(
    container: Container,
) -> None:
    (container.folder / "ledger").unlink()
    (container.folder / "ledger").mkdir()
    status, report = report_of(container, "--quick")
    assert (status, report["holds"]) == (1, False)
    assert report["problems"][0].startswith("ledger can't be opened for writing (Is a directory)")


def test_a_ledger_whose_places_are_all_taken_is_said_to_be(container: Container) -> None:
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with (container.folder / "ledger").open("r+b") as ledger:
        fcntl.fcntl(ledger, fcntl.F_OFD_SETLK, whole)
        status, report = report_of(container, "--quick")
    assert (status, report["holds"], len(report["problems"])) == (1, False, 1)
    assert "all 256 are taken by other processes of the container" in report["problems"][0]


def test_a_full_card_is_reported_and_passes(container: Container) -> None:
    with container.start("enter(); check(allocate(info()[0])[0]); print(); input()") as tenant:
        assert tenant.stdout is not None
        tenant.stdout.readline()
        status, report = report_of(container)
        tenant.communicate("\n", timeout=30)
    assert (status, report["cards"][0]["full"], report["cards"][0]["attempts"]) == (0, True, [])


def test_the_selftest_needs_limits(container: Container) -> None:
    (container.folder / "limits").unlink()
    status, report = report_of(container)
    assert (status, report["holds"], report["limits"]) == (2, None, None)
    assert [problem.split(":")[0] for problem in report["problems"]] == [
        "limits holds no limits of layout 1 to 2"
    ]


@pytest.mark.parametrize(
    ("variable", "said"),
    [("SIMGPU_DEV", "the driver finds no card"), ("LD_LIBRARY_PATH", "there is no driver")],
)
def test_the_selftest_needs_a_card_and_a_driver(
    container: Container, variable: str, said: str
) -> None:
    container.environment[variable] = "/nowhere"
    status, report = report_of(container)
    assert (status, report["holds"], report["cards"]) == (2, None, [])
    assert report["problems"][0].startswith(said)


def test_wrong_use_says_what_is_right(container: Container) -> None:
    result = container.run(str(container.program), "--help-me")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("usage: ")
