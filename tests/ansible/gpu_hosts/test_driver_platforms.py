"""A host gets the driver of its distribution, its kernel and its cards, or a word that it can't."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ansible import layout, plugins

driver = plugins.load("roles/nvidia_driver/filter_plugins/nvidia_driver.py")
AnsibleFilterError = driver.AnsibleFilterError
T4, V100, H100, B200 = 0x1EB8, 0x1DB6, 0x2330, 0x2901
DEBIAN = {"distribution": "Debian", "distribution_version": "13.2", "kernel": "6.12.41+deb13-amd64"}
UBUNTU = {
    "distribution": "Ubuntu",
    "distribution_version": "24.04",
    "kernel": "6.8.0-45-generic",
}


def packages(
    facts: dict[str, str],
    *cards: int,
    switches: int = 0,
    modules: str = "auto",
    branch: str = "",
    build: str = "dkms",
) -> list[str]:
    host = {"cards": list(cards), "switches": switches}
    found: list[str] = driver.nvidia_driver_packages(
        host, facts, modules=modules, branch=branch, build=build
    )
    return found


def test_debian_has_one_branch_and_proprietary_modules() -> None:
    assert packages(DEBIAN, H100)[0] == "nvidia-kernel-dkms"
    assert packages(DEBIAN, H100, modules="open")[0] == "nvidia-open-kernel-dkms"
    twelve = {**DEBIAN, "distribution_version": "12"}
    assert packages(twelve, V100) == [
        "nvidia-kernel-dkms", "nvidia-smi", "libcuda1", "libnvidia-ml1", "nvidia-modprobe",
        "nvidia-persistenced",
    ]  # fmt: skip


def test_ubuntu_has_open_modules_unless_a_card_is_too_old() -> None:
    assert packages(UBUNTU, T4, H100)[:2] == [
        "nvidia-dkms-580-server-open",
        "nvidia-utils-580-server",
    ]
    assert packages(UBUNTU, T4, V100)[0] == "nvidia-dkms-580-server"
    assert packages(UBUNTU, T4, branch="535")[0] == "nvidia-dkms-535-server"
    assert packages(UBUNTU, B200)[0] == "nvidia-dkms-580-server-open"


def test_precompiled_modules_are_those_of_the_running_kernel() -> None:
    assert packages(UBUNTU, T4, build="precompiled")[:2] == [
        "linux-modules-nvidia-580-server-open-6.8.0-45-generic",
        "linux-modules-nvidia-580-server-open-generic",
    ]


def test_cards_behind_switches_get_a_fabric_manager() -> None:
    assert packages(UBUNTU, H100, switches=4)[-1] == "nvidia-fabricmanager-580"
    assert not [name for name in packages(UBUNTU, H100) if "fabric" in name]


@pytest.mark.parametrize(
    ("kernel", "headers"),
    [
        ("6.1.0-25-amd64", "amd64"),
        ("6.1.0-25-cloud-amd64", "cloud-amd64"),
        ("6.12.41+deb13-arm64", "arm64"),
        ("6.12.9+bpo-amd64", "amd64"),
        ("5.15.0-1053-aws", "aws"),
        ("6.8.0-45-generic", "generic"),
    ],
)
def test_headers_are_those_of_the_running_kernel(kernel: str, headers: str) -> None:
    found = driver.nvidia_driver_build_packages({"kernel": kernel}, "dkms")
    assert found == [f"linux-headers-{kernel}", f"linux-headers-{headers}"]
    assert driver.nvidia_driver_build_packages({"kernel": kernel}, "precompiled") == []


@pytest.mark.parametrize("kernel", ["6.18.5", "6.18.5-rc1+", "", "5.14.0-503.el9.x86_64"])
def test_a_kernel_of_somebody_else_is_named(kernel: str) -> None:
    with pytest.raises(AnsibleFilterError, match="nvidia_driver_build_packages"):
        driver.nvidia_driver_build_packages({"kernel": kernel}, "dkms")


@pytest.mark.parametrize(
    ("facts", "cards", "settings", "said"),
    [
        ({"distribution": "Rocky", "distribution_version": "9.4"}, (T4,), {}, "of Rocky 9.4"),
        ({**UBUNTU, "distribution_version": "20.04"}, (T4,), {}, "of Ubuntu 20.04"),
        (DEBIAN, (B200,), {}, "10de:2901 need a driver of 570 or newer, and this one is 550"),
        (DEBIAN, (T4,), {"branch": "580"}, "has driver 550 and not 580"),
        (DEBIAN, (T4,), {"build": "precompiled"}, "has no precompiled modules"),
        (UBUNTU, (V100,), {"modules": "open"}, "10de:1db6 are older"),
        (UBUNTU, (B200,), {"modules": "proprietary"}, "10de:2901 have open modules only"),
        (UBUNTU, (B200, V100), {}, "10de:1db6 are older"),
    ],
)
def test_what_cannot_be_is_said_with_a_remedy(
    facts: dict[str, str], cards: tuple[int, ...], settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(AnsibleFilterError, match=re.escape(said)) as raised:
        packages(facts, *cards, **settings)
    assert "nvidia_driver_" in str(raised.value)


@given(st.lists(st.integers(0, 0xFFFF), max_size=8), st.sampled_from(["535", "550", "570", "580"]))
def test_no_card_gets_modules_that_cannot_drive_it(cards: list[int], branch: str) -> None:
    try:
        (modules, *_) = packages(UBUNTU, *cards, branch=branch)
    except AnsibleFilterError:
        assert any(card >= driver.BLACKWELL for card in cards)
        return
    if modules.endswith("-open"):
        assert min(cards) >= driver.TURING
    else:
        assert max(cards, default=0) < driver.BLACKWELL


def test_the_table_in_the_documents_names_every_platform() -> None:
    text = (layout.ROOT / "docs/operations.md").read_text("utf-8")
    _, _, section = text.partition("\n## Drivers by platform\n")
    rows = re.findall(
        r"^\| (\w+ [0-9.]+) \| ([0-9]+) \|", section.partition("\n## ")[0], re.MULTILINE
    )
    assert rows == [(name, each.branch) for name, each in driver.PLATFORMS.items()]
