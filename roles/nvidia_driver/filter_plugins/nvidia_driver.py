"""Filters that choose a host's driver packages by its distribution, its kernel and its cards.

Pure functions of Ansible's facts and of what the module nvidia_driver_host has read.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible.errors import AnsibleFilterError

# The first Turing is 0x1e02, the last Volta 0x1df6, the first Blackwell 0x2901 (the PCI ID
# repository, https://pci-ids.ucw.cz/read/PC/10de). Open modules are for Turing and newer ones, and
# the default since 560; Blackwell has no others, and came with 570
# (https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html).
TURING = 0x1E00
BLACKWELL = 0x2900
OPEN_BY_DEFAULT = 560
WITH_BLACKWELL = 570


class Platform(NamedTuple):
    """A distribution's release: the branch of its driver, and the form of its packages' names.

    Each name has a page of the vendor's below `pages`, whose last part is the release's code name.
    """

    pages: str
    branch: str
    proprietary: str
    open: str
    others: tuple[str, ...]
    precompiled: str = ""
    fabric_manager: str = ""


def _debian(code_name: str, branch: str) -> Platform:
    """Return a release of Debian, whose archive has one branch, and no fabric manager."""
    return Platform(
        f"https://packages.debian.org/{code_name}",
        branch,
        "nvidia-kernel-dkms",
        "nvidia-open-kernel-dkms",
        ("nvidia-smi", "libcuda1", "libnvidia-ml1", "nvidia-modprobe", "nvidia-persistenced"),
    )


def _ubuntu(code_name: str) -> Platform:
    """Return a release of Ubuntu.

    Precompiled modules: https://documentation.ubuntu.com/server/how-to/graphics/install-nvidia-drivers/.
    """
    return Platform(
        f"https://packages.ubuntu.com/{code_name}",
        "580",
        "nvidia-dkms-{branch}-server",
        "nvidia-dkms-{branch}-server-open",
        (
            "nvidia-utils-{branch}-server",
            "libnvidia-compute-{branch}-server",
            "nvidia-compute-utils-{branch}-server",
            "nvidia-modprobe",
        ),
        precompiled="linux-modules-nvidia-{branch}-server",
        fabric_manager="nvidia-fabricmanager-{branch}",
    )


PLATFORMS = {
    "Debian 12": _debian("bookworm", "535"),
    "Debian 13": _debian("trixie", "550"),
    "Ubuntu 22.04": _ubuntu("jammy"),
    "Ubuntu 24.04": _ubuntu("noble"),
    "Ubuntu 26.04": _ubuntu("resolute"),
}


def _platform(facts: Mapping[str, Any]) -> Platform:
    distribution = str(facts.get("distribution", "this host"))
    version = str(facts.get("distribution_version", ""))
    release = version.split(".", 1)[0] if distribution == "Debian" else version
    name = f"{distribution} {release}"
    if name not in PLATFORMS:
        raise AnsibleFilterError(
            f"This role knows no driver packages of {name}, only those of {', '.join(PLATFORMS)}. "
            "Name yours (nvidia_driver_packages), or install the driver in the host's own way and "
            "set nvidia_driver_packages to []."
        )
    return PLATFORMS[name]


def _flavour(facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return the running kernel, and its flavour: amd64 of 6.1.0-25-amd64."""
    kernel = str(facts.get("kernel", ""))
    match = re.fullmatch(r"[0-9.]+(?:\+[a-z0-9]+)?(?:-[0-9.]+)?-([a-z][a-z0-9-]*)", kernel)
    if not match:
        raise AnsibleFilterError(
            f"The running kernel {kernel} is none of the distribution's: name the packages that "
            "DKMS needs to build its modules (nvidia_driver_build_packages)."
        )
    return kernel, match[1]


def nvidia_driver_build_packages(facts: Mapping[str, Any], build: str) -> list[str]:
    """Return the headers of the running kernel, and those that come with the next ones.

    Args:
        facts: Ansible's.
        build: `dkms`, or `precompiled`, which needs none.

    Raises:
        AnsibleFilterError: the kernel isn't the distribution's.
    """
    if build == "precompiled":
        return []
    kernel, flavour = _flavour(facts)
    return [f"linux-headers-{kernel}", f"linux-headers-{flavour}"]


def _is_open(chosen: str, branch: int, cards: Sequence[int]) -> bool:
    old = [f"{card:04x}" for card in cards if card < TURING]
    newest = [f"{card:04x}" for card in cards if card >= BLACKWELL]
    if newest and branch < WITH_BLACKWELL:
        raise AnsibleFilterError(
            f"Cards of PCI number 10de:{newest[0]} need a driver of {WITH_BLACKWELL} or newer, and "
            f"this one is {branch}: choose a newer one (nvidia_driver_branch), or name the "
            "packages of NVIDIA's own repository (nvidia_driver_packages), or [] where a driver "
            "is here already."
        )
    if chosen == "auto":
        is_open = bool(newest) or (branch >= OPEN_BY_DEFAULT and bool(cards) and not old)
    else:
        is_open = chosen == "open"
    if is_open and old:
        raise AnsibleFilterError(
            f"Cards of PCI number 10de:{old[0]} are older than open modules support: set "
            "nvidia_driver_modules to proprietary."
        )
    if newest and not is_open:
        raise AnsibleFilterError(
            f"Cards of PCI number 10de:{newest[0]} have open modules only: set "
            "nvidia_driver_modules to open."
        )
    return is_open


def nvidia_driver_packages(
    host: Mapping[str, Any], facts: Mapping[str, Any], *, modules: str, branch: str, build: str
) -> list[str]:
    """Return the packages of a host's driver.

    Args:
        host: What nvidia_driver_host returns; without cards, modules are proprietary.
        facts: Ansible's: distribution, distribution_version, kernel.
        modules: `open`, `proprietary`, or `auto`, by the cards.
        branch: First part of the driver's version; empty for the release's own.
        build: `dkms`, or `precompiled` for modules that the distribution has built and signed.

    Raises:
        AnsibleFilterError: no such packages; its text says what to set.
    """
    platform = _platform(facts)
    branch = branch or platform.branch
    if "{branch}" not in platform.proprietary and branch != platform.branch:
        raise AnsibleFilterError(
            f"{facts['distribution']} {facts['distribution_version']} has driver {platform.branch} "
            f"and not {branch} (nvidia_driver_branch): leave it empty, or name the packages of "
            "another repository (nvidia_driver_packages)."
        )
    is_open = _is_open(modules, int(branch), host.get("cards", []))
    if build == "precompiled":
        if not platform.precompiled:
            raise AnsibleFilterError(
                f"{facts['distribution']} has no precompiled modules: set nvidia_driver_build to "
                "dkms."
            )
        kernel, flavour = _flavour(facts)
        base = platform.precompiled + ("-open" if is_open else "")
        names = [f"{base}-{kernel}", f"{base}-{flavour}"]
    else:
        names = [platform.open if is_open else platform.proprietary]
    names += platform.others
    if host.get("switches") and platform.fabric_manager:
        names.append(platform.fabric_manager)
    return [name.format(branch=branch) for name in names]


# What apt leaves behind the name of an index that it keeps compressed.
_COMPRESSED = re.compile(r"\.(bz2|gz|lz4|lzma|xz|zst)$")


def nvidia_driver_unused_lists(
    files: Sequence[str], gone: Sequence[str], described: Sequence[str]
) -> list[str]:
    """Return which of apt's lists belong to a repository that is gone, and to no other.

    Args:
        files: paths in /var/lib/apt/lists.
        gone: what `apt-get update --print-uris` printed of it while it was described, a line each.
        described: the same of all sources, without it.
    """
    names = _lists(gone) - _lists(described)
    return [path for path in files if _COMPRESSED.sub("", path.rpartition("/")[2]) in names]


def _lists(printed: Sequence[str]) -> set[str]:
    """Return the names of lists; a repository without InRelease has Release and its signature."""
    names = {line.split()[1] for line in printed if line.startswith("'")}
    of_release = {name.removesuffix("InRelease") for name in names if name.endswith("InRelease")}
    return names | {prefix + name for prefix in of_release for name in ("Release", "Release.gpg")}


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "nvidia_driver_build_packages": nvidia_driver_build_packages,
            "nvidia_driver_packages": nvidia_driver_packages,
            "nvidia_driver_unused_lists": nvidia_driver_unused_lists,
        }
