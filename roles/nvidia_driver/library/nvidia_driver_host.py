"""Reads from a host what decides which driver it can have."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: nvidia_driver_host
short_description: Read a host's NVIDIA cards, its driver and whether its firmware wants signatures
description:
  - Returns C(cards) (PCI device numbers), C(switches) (how many NVSwitches), C(nouveau) (whether it
    drives a card), C(loaded) and C(next) (versions of the driver that runs and of the one that a
    boot would load; empty if there is none), C(secure_boot), C(enrolled_keys) (files of DKMS keys
    that the firmware knows), C(takes_built) (whether the driver that runs shows that this kernel
    takes modules that were built on the host).
  - Changes nothing.
options:
  sys_path: {type: path, default: /sys, description: The sys file system.}
"""

_NVIDIA = "0x10de"
# Classes of display and 3D controllers, and of other bridges, which an NVSwitch is
# (https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/: lspci says "Bridge").
_CARDS = ("0x0300", "0x0302")
_SWITCHES = ("0x0680",)
_SECURE_BOOT = "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# Where DKMS keeps its key on Debian (dkms 3) and on Ubuntu (shim-signed).
_KEYS = ("/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der")


def cards(sys_path: pathlib.Path) -> dict[str, Any]:
    """Return the host's cards and NVSwitches, by /sys/bus/pci."""
    numbers: list[int] = []
    switches, nouveau = 0, False
    for device in sorted(sys_path.glob("bus/pci/devices/*")):
        if (device / "vendor").read_text().strip() != _NVIDIA:
            continue
        kind = (device / "class").read_text().strip()
        if kind.startswith(_CARDS):
            numbers.append(int((device / "device").read_text(), 16))
            nouveau |= pathlib.Path(os.path.realpath(device / "driver")).name == "nouveau"
        switches += kind.startswith(_SWITCHES)
    return {"cards": numbers, "switches": switches, "nouveau": nouveau}


def loaded(sys_path: pathlib.Path) -> str:
    """Return the version of the driver that runs; empty if none does."""
    file = sys_path / "module/nvidia/version"
    return file.read_text().strip() if file.exists() else ""


def secure_boot(sys_path: pathlib.Path) -> bool:
    """Return whether the firmware starts signed kernels only; not so without UEFI."""
    file = sys_path / _SECURE_BOOT
    # four bytes of attributes, and one of the value (UEFI 2.10, 3.3)
    return file.exists() and file.read_bytes()[4:5] == b"\1"


def _said(command: list[str], worst: int) -> str:
    """Return what a program says; nothing where it isn't installed.

    Args:
        command: the program and its arguments.
        worst: the highest status that it may end with. modinfo ends with 1 if there is no module,
            and mokutil if a key is enrolled.

    Raises:
        RuntimeError: it ended with a higher one.
    """
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    if run.returncode > worst:
        raise RuntimeError(f"{command[0]} ended with status {run.returncode}: {run.stderr.strip()}")
    return run.stdout


def module_of(configuration: str) -> str:
    """Return the name of the file of NVIDIA's module.

    Debian's packages bring nvidia-current.ko, and a rule by which it is loaded for `nvidia`
    (/etc/modprobe.d/nvidia.conf): modinfo knows files alone.

    Args:
        configuration: what `modprobe --showconfig` prints.
    """
    rule = re.search(
        r"(?m)^install nvidia .*?modprobe (?:-i|--ignore-install) (\S+)", configuration
    )
    return rule[1] if rule else "nvidia"


def _of_next_driver(field: str) -> str:
    """Return a field of the module that a boot would load; empty if there is none."""
    name = module_of(_said(["modprobe", "--showconfig"], worst=1))
    return _said(["modinfo", f"--field={field}", name], worst=1).strip()


def takes_built(sys_path: pathlib.Path) -> bool:
    """Return whether the driver that runs was built on this host, or is without a signature.

    A driver that the distribution has built and signed says nothing of the next one, which DKMS
    would sign with a key of the host's. DKMS puts its modules into updates/dkms on Debian and
    Ubuntu; E is a module without a signature that the kernel knows
    (https://docs.kernel.org/admin-guide/tainted-kernels.html).
    """
    taint = sys_path / "module/nvidia/taint"
    if taint.exists() and "E" in taint.read_text():
        return True
    return "/updates/dkms/" in _of_next_driver("filename") and loaded(sys_path) == next_driver()


def next_driver() -> str:
    """Return the version of the driver that a boot would load; empty if there is none."""
    return _of_next_driver("version")


def enrolled_keys() -> list[str]:
    """Return the files of DKMS keys that the firmware knows; none where mokutil can't say."""
    return [
        key
        for key in _KEYS
        if os.path.exists(key)
        and "already enrolled" in _said(["mokutil", "--test-key", key], worst=255)
    ]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        {"sys_path": {"type": "path", "default": "/sys"}},
        supports_check_mode=True,
    )
    sys_path = pathlib.Path(module.params["sys_path"])
    try:
        found = {
            **cards(sys_path),
            "loaded": loaded(sys_path),
            "next": next_driver(),
            "secure_boot": secure_boot(sys_path),
            "enrolled_keys": enrolled_keys(),
            "takes_built": takes_built(sys_path),
        }
    except RuntimeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**found)


if __name__ == "__main__":
    main()
