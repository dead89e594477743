"""The driver's view of every container, by NVML: memory, GPU time, processes.

It is independent of the container's own ledger, which its tenant can write to.
"""

import collections
import dataclasses
import functools
import logging
from collections.abc import Iterable, Mapping

from gpustack.adapters.nvml import Nvml, NvmlError
from gpustack.agent.identification.process_owners import Owner, ProcessOwners

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSample:
    """One container on one card.

    Attributes:
        memory_bytes: of the card, contexts and modules included.
        busy_ns: GPU time since the look before, as far as the driver's windows are over.
        ahead_ns: estimate of the GPU time since then, if the container's use is steady.
        span_ns: length of the driver's windows since the look before.
        lag_ns: time since they ended.
        pids: its processes there, as the host numbers them.
    """

    memory_bytes: int = 0
    busy_ns: int = 0
    ahead_ns: int = 0
    span_ns: int = 0
    lag_ns: int = 0
    pids: tuple[int, ...] = ()

    def plus(self, pid: int, memory_bytes: int, busy_ns: int, ahead_ns: int) -> "ContainerSample":
        """Return the sum with one more process."""
        return dataclasses.replace(
            self,
            memory_bytes=self.memory_bytes + memory_bytes,
            busy_ns=self.busy_ns + busy_ns,
            ahead_ns=self.ahead_ns + ahead_ns,
            pids=(*self.pids, pid),
        )


NOTHING = ContainerSample()


class NvmlUsage:
    """Reads the use of cards; remembers up to when it has counted GPU time."""

    def __init__(self, nvml: Nvml, owners: ProcessOwners) -> None:
        self._nvml = nvml
        self._owners = owners
        self._counted_us: dict[str, int] = {}  # by card; the driver's clock
        self.unowned_bytes: Mapping[str, int] = {}  # by card, at the last look

    def look(self, uuids: Iterable[str]) -> Mapping[str, Mapping[Owner, ContainerSample]]:
        """Return, by card, the containers that have processes there.

        A card that doesn't answer is left out: its missing samples prove no absence of use.
        """
        owner_of = self._owners.now()
        found: dict[str, dict[Owner, ContainerSample]] = {}
        unowned: dict[str, int] = {}
        for uuid in uuids:
            try:
                processes = self._nvml.processes(uuid)
                busy = self._nvml.busy(uuid, since_us=self._counted_us.get(uuid, 0))
            except NvmlError as error:
                logger.debug("card says nothing of its processes uuid=%s: %s", uuid, error)
                continue
            try:
                unowned[uuid] = self._nvml.unowned_bytes(uuid)
            except NvmlError as error:
                logger.debug("card doesn't say what it has in use uuid=%s: %s", uuid, error)
            # Only the end of the first look is of use: its beginning is unknown.
            times = busy.busy_ns if uuid in self._counted_us else {}
            span_us = busy.until_us - self._counted_us.get(uuid, busy.until_us)
            span_ns = 1000 * max(0, span_us)  # the clock may have been set back
            self._counted_us[uuid] = busy.until_us
            empty = functools.partial(
                ContainerSample, span_ns=span_ns, lag_ns=int(span_ns * busy.lag)
            )
            sights = found[uuid] = collections.defaultdict(empty)
            for each in processes:
                owner = owner_of(each.pid)
                if owner is None and self._owners.identity(each.pid) is None:
                    # A child that has inherited its descriptors keeps what it held.
                    unowned[uuid] = unowned.get(uuid, 0) + each.memory_bytes
                elif owner is not None:
                    busy_ns = times.get(each.pid, 0)
                    sights[owner] = sights[owner].plus(
                        each.pid, each.memory_bytes, busy_ns, int(busy_ns * busy.lag)
                    )
        self.unowned_bytes = unowned
        return found
