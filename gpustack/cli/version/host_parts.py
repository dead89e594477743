"""The parts on this host: what runs here now, which need not be what is installed."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from gpustack.cli.doctor.host import local_files, services
from gpustack.cli.doctor.host.reading import HostLocations
from gpustack.cli.doctor.host.schedulers import our_entries
from gpustack.cli.version.part import Part, part, take, unread
from gpustack.model.errors import GpustackError
from gpustack.wire.config import load_config


def read(where: HostLocations) -> list[Part]:
    """Return the parts of this host; those of another kind of host are left out."""
    return [*_of_agent(where), *_of_extender(where), part("kernel", os.uname().release)]


def _of_agent(where: HostLocations) -> Iterator[Part]:
    if not where.agent_config.exists():
        return
    try:
        config = load_config(where.agent_config, "agent")
    except (GpustackError, OSError) as error:
        yield unread("agent", error)
    else:
        http = config["http"]
        yield take("agent", lambda: services.agent_version(http["address"], http["port"]))
        yield part("hook", config["hook"]["version"])
    yield take("driver", _driver)
    yield take("driver-module", lambda: local_files.module_version(where.modules))


def _driver() -> str:
    """Return the version of the driver's library.

    Raises:
        ServiceError: it gives no answer.
    """
    found = services.nvml()
    if "mismatch" in found:
        raise services.ServiceError(found["mismatch"])
    return str(found["driver"])


def _of_extender(where: HostLocations) -> Iterator[Part]:
    """Yield the extenders that schedulers of this host ask, once each."""
    asked = set()
    for file in local_files.schedulers(where.schedulers):
        if file.problem:
            yield unread("extender", GpustackError(f"{file.path}: {file.problem}"))
        for entry in our_entries(file.value):
            if (url := str(entry.get("urlPrefix"))) not in asked:
                asked.add(url)
                yield _asked(entry)


def _asked(entry: Mapping[str, Any]) -> Part:
    return take("extender", lambda: services.extender_version(entry))
