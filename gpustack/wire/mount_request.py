"""What the agent asks of gpustack-mount: one packet a request, one packet an answer.

The answer is `done`, or a line that says why not.
"""

import dataclasses
import enum
import re
from typing import Final

from gpustack.model.errors import GpustackError

FOLDER: Final = "containers"
"""Below `state_dir`; the folders of all containers lie there, by their pods' UIDs."""

DONE: Final = b"done"
MOST_BYTES: Final = 4096
"""A packet's; a request takes 107 at most, and an answer names a path and an error."""

# A pod's UID: of the API server, or config.hash of a static pod. A container's name: a DNS label.
_REQUEST: Final = re.compile(
    r"(make|remove) ([0-9a-f-]{32,36}) ([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)"
)


class BadMountRequest(GpustackError):
    """A request that isn't one."""


class Verb(enum.StrEnum):
    """What shall be done with a container's folder."""

    MAKE = "make"
    """Mount a new tmpfs there, in the place of one that is there."""

    REMOVE = "remove"
    """Unmount what is mounted there."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MountRequest:
    """A request, by the container whose folder it means."""

    verb: Verb
    pod_uid: str
    container: str

    def encode(self) -> bytes:
        """Return the packet.

        Raises:
            BadMountRequest: no pod has such a UID, or no container such a name.
        """
        packet = f"{self.verb} {self.pod_uid} {self.container}".encode()
        decode(packet)
        return packet


def decode(packet: bytes) -> MountRequest:
    """Return the request of a packet.

    Raises:
        BadMountRequest: it holds anything else.
    """
    found = _REQUEST.fullmatch(packet.decode("ascii", "replace"))
    if found is None:
        raise BadMountRequest(f"not `make|remove POD_UID CONTAINER`: {packet[:200]!r}")
    return MountRequest(verb=Verb(found[1]), pod_uid=found[2], container=found[3])
