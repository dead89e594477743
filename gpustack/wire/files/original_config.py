"""The original's two configuration files, JSON: volume.conf and extra-config.json."""

import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpustack.wire import schemas
from gpustack.wire.config import ConfigError
from gpustack.wire.files import regular_file

_MOST_BYTES: Final = 1 << 20  # the original ships 3 KB

# The original's own, which no driver has: its library, and the program that registers for it.
_ORIGINALS_OWN: Final = ("libcuda-control.so", "gpu-client")

# Vendor-neutral (glvnd): they belong to the image, with the versions that it was built for.
_NEUTRAL: Final = (
    "libEGL.so", "libGL.so", "libGLESv1_CM.so", "libGLESv2.so", "libGLX.so", "libGLdispatch.so",
    "libOpenGL.so",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeNames:
    """The files of a driver volume.

    Attributes:
        libraries: the beginnings of their SONAMEs.
        binaries: names of programs.
    """

    libraries: tuple[str, ...]
    binaries: tuple[str, ...]


def volume_names(path: pathlib.Path) -> VolumeNames:
    """Return the names in a volume.conf, of all its volumes, each once.

    Raises:
        ConfigError: it can't be read, or breaks its schema; lists every problem with its path.
    """
    components = [each["components"] for each in _read(path, "volume-conf")["volume"]]
    libraries = dict.fromkeys(name for each in components for name in each.get("libraries", ()))
    binaries = dict.fromkeys(name for each in components for name in each.get("binaries", ()))
    passed_over = (*_ORIGINALS_OWN, *_NEUTRAL)
    return VolumeNames(
        libraries=tuple(name for name in libraries if name not in passed_over),
        binaries=tuple(name for name in binaries if name not in passed_over),
    )


def extra_devices(path: pathlib.Path) -> tuple[str, ...]:
    """Return the device nodes of the object `default` of an extra-config.json.

    Raises:
        ConfigError: as `volume_names`.
    """
    default: Mapping[str, Any] = _read(path, "extra-config").get("default", {})
    return tuple(default.get("devices", ()))


def _read(path: pathlib.Path, schema: str) -> dict[str, Any]:
    try:
        value = json.loads(regular_file.read(path, max_bytes=_MOST_BYTES), object_pairs_hook=_once)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(path, [f"can't be read: {error}"]) from error
    if problems := schemas.problems(schemas.load(schema), value):
        raise ConfigError(path, problems)
    found: dict[str, Any] = value
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice} stands twice")
    return found
