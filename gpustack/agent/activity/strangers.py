"""Containers with processes on a card that no record gives them.

A process needs no right to a card's device nodes for descriptors that another one has opened: a
container with the card may hand them to one without (SCM_RIGHTS), of its own pod or of another's,
which may keep them when the card is another pod's. No limits and no ledger hold there.
"""

from collections.abc import Callable, Mapping
from typing import Final

from gpustack.agent.activity.nvml_usage import ContainerSample, NvmlUsage
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.identification.process_owners import Owner

_LOOKS: Final = 3  # in all: a record that was lost is restored meanwhile
_PERIOD: Final = 5  # looks, between those at whole cards
_MOST: Final = 1024  # of containers that are remembered


class Strangers:
    """Tells each of them once a card.

    Args:
        records: which container has which cards.
        usage: knows the processes of cards that are given whole.
        tell: takes the card, and the container in words.
    """

    def __init__(
        self, records: AllocationRecords, usage: NvmlUsage, tell: Callable[[str, str], None]
    ) -> None:
        self._records = records
        self._usage = usage
        self._tell = tell
        self._turn = 0
        self._looks: dict[tuple[str, Owner], int] = {}  # that have found it

    def look(self, seen: Mapping[str, Mapping[Owner, ContainerSample]]) -> None:
        """Take over the containers that the driver shows on cards with shares, by card."""
        records = self._records.all()
        given = {
            (uuid, (record.uid, container.name))
            for record in records
            for container in record.containers
            for uuid in container.placement.uuids
        }
        found = {(uuid, owner) for uuid, here in seen.items() for owner in here if here[owner].pids}
        self._turn = (self._turn + 1) % _PERIOD
        whole = {uuid for uuid, _ in given}.difference(seen, {""}) if not self._turn else ()
        found |= {(uuid, owner) for uuid in whole for owner in self._usage.containers_on(uuid)}
        for each in found - given:
            self._looks[each] = looks = self._looks.pop(each, 0) + 1
            if looks == _LOOKS:
                uuid, (uid, name) = each
                pod = next((f"{one.namespace}/{one.name}" for one in records if one.uid == uid), "")
                self._tell(uuid, f"container {name} of the pod {pod or 'with UID ' + uid}")
        while len(self._looks) > _MOST:
            del self._looks[next(iter(self._looks))]
