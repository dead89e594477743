"""Whether a runtime takes CDI devices from the kubelet, by what it says of itself. Pure.

- containerd reads CRI's `CDIDevices` since 1.7.2, and CRI-O since 1.28 (kubernetes/kubernetes issue
  125210; before, both read an annotation, which kubelets don't write for device plugins).
- containerd 1.7 has CDI off and 2.0 has it on (`enable_cdi`, in pkg/cri/config/config_unix.go and
  internal/cri/config/config_unix.go); 2.4 has it always, and has no such key.
  `Status` shows the configuration as JSON, with `enableCDI` and `cdiSpecDirs` (pkg/cri/config).
- CRI-O has it always, and shows nothing of it (server/runtime_status.go).
"""

import os.path
import pathlib
import re
from collections.abc import Mapping
from typing import Any, Final

from gpustack.adapters.cri.client import RuntimeVersion
from gpustack.wire.quoting import quoted

_OLDEST: Final = {"containerd": (1, 7, 2), "cri-o": (1, 28, 0)}
_NUMBERS: Final = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")


def why_no_cdi(version: RuntimeVersion, config: Mapping[str, Any], folder: pathlib.Path) -> str:
    """Return why a runtime takes no CDI devices with their spec in a folder; empty where it does.

    Args:
        version: the runtime's.
        config: what it shows of its configuration.
        folder: where the spec lies; links on its way are followed.
    """
    name = f"{version.name} {version.version}"
    oldest = _OLDEST.get(version.name)
    if oldest is None:
        known = ", ".join(f"{each} {_dotted(since)}" for each, since in _OLDEST.items())
        return f"{name} isn't known to take CDI devices, as runtimes since {known} are"
    numbers = _NUMBERS.match(version.version)
    if numbers is not None and tuple(map(int, numbers.groups())) < oldest:
        return f"{name} takes no CDI devices from the kubelet; upgrade it to {_dotted(oldest)}"
    if version.name == "cri-o":
        return ""
    folders = config.get("cdiSpecDirs")
    if not isinstance(folders, list) or config.get("enableCDI", True) is not True:
        return f"{name} has CDI off; set enable_cdi = true in its config.toml and restart it"
    if os.path.realpath(folder) not in map(_real_path, folders):
        return (
            f"{name} reads no CDI specs in {folder}; add it to cdi_spec_dirs in its config.toml,"
            f" which has {quoted(', '.join(map(str, folders))) if folders else 'none'}, and"
            " restart it"
        )
    return ""


def _real_path(shown: object) -> str:
    """Return where a folder of the configuration leads; empty for what is no path."""
    try:
        return os.path.realpath(str(shown))
    except ValueError:  # a NUL, or half of a surrogate pair
        return ""


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
