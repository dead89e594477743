"""Containers with processes on a shared card that no record gives a part of it.

A process needs no right to a card's device nodes for descriptors that another one has opened: a
container with a share may hand them to one without (SCM_RIGHTS), of its own pod or of another's. No
limits and no ledger hold there.
"""

from collections.abc import Callable, Mapping
from typing import Final

from gpustack.agent.activity.nvml_usage import ContainerSample
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.identification.process_owners import Owner

_LOOKS: Final = 3  # in all: a record that was lost is restored meanwhile
_MOST: Final = 1024  # of containers that are remembered


class Strangers:
    """Tells each of them once a card.

    Args:
        records: which container has which cards.
        tell: takes the card, and the container in words.
    """

    def __init__(self, records: AllocationRecords, tell: Callable[[str, str], None]) -> None:
        self._records = records
        self._tell = tell
        self._looks: dict[tuple[str, Owner], int] = {}  # that have found it

    def look(self, seen: Mapping[str, Mapping[Owner, ContainerSample]]) -> None:
        """Take over the containers that the driver shows, by card."""
        records = self._records.all()
        given = {
            (uuid, (record.uid, container.name))
            for record in records
            for container in record.containers
            for uuid in container.placement.uuids
        }
        found = {(uuid, owner) for uuid, here in seen.items() for owner in here if here[owner].pids}
        for each in found - given:
            self._looks[each] = looks = self._looks.pop(each, 0) + 1
            if looks == _LOOKS:
                uuid, (uid, name) = each
                pod = next((f"{one.namespace}/{one.name}" for one in records if one.uid == uid), "")
                self._tell(uuid, f"container {name} of the pod {pod or 'with UID ' + uid}")
        while len(self._looks) > _MOST:
            del self._looks[next(iter(self._looks))]
