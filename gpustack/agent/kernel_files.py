"""Where the kernel shows processes, cgroups and its modules."""

import dataclasses
import pathlib
from typing import Final


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelFiles:
    """Paths of the host's; a test has its own.

    Attributes:
        proc: the proc file system.
        cgroups: cgroup v2, or the hierarchies of v1.
        driver_version: the version of the nvidia module that is loaded.
    """

    proc: pathlib.Path = pathlib.Path("/proc")
    cgroups: pathlib.Path = pathlib.Path("/sys/fs/cgroup")
    driver_version: pathlib.Path = pathlib.Path("/sys/module/nvidia/version")


HOST: Final = KernelFiles()
