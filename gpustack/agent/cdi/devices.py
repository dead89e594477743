"""The names of containers' device nodes, and the spec file behind them.

A name in the kubelet's checkpoint outlives the option: the kubelet starts a container again with
the answer that it keeps. So while it keeps one with our names, the file stays.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from gpustack.agent.cdi import spec
from gpustack.agent.cdi.spec_file import SpecFile
from gpustack.agent.cdi.support import CdiError, CdiSupport
from gpustack.agent.kubelet.checkpoint import (
    KubeletCheckpoint,
    KubeletCheckpointError,
    KubeletCheckpointMissing,
)
from gpustack.agent.node.device_nodes import DeviceNodes, HostNode, card_path
from gpustack.agent.tasks import Tasks
from gpustack.model.node import Card
from gpustack.model.placement import ContainerPlacement

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0


class CdiDevices:
    """Answers with names while the option is on, and keeps the spec file as long as it is needed.

    Args:
        domain: the vendor.
        support: of kubelet and runtime; None: the option is off.
        file: the spec's.
        nodes: the host's device nodes.
        cards: returns the host's cards.
        kubelet: keeps the answers of Allocate.

    """

    def __init__(
        self,
        *,
        domain: str,
        support: CdiSupport | None,
        file: SpecFile,
        nodes: DeviceNodes,
        cards: Callable[[], Sequence[Card]],
        kubelet: KubeletCheckpoint,
    ) -> None:
        self._domain = domain
        self._support = support
        self._file = file
        self._nodes = nodes
        self._cards = cards
        self._kubelet = kubelet
        self._lock = threading.Lock()  # one writer of the file
        self._file_problem = ""

    @property
    def problem(self) -> str:
        """Why containers don't get their devices, or wouldn't when they start again; or empty."""
        return self._file_problem or ("" if self._support is None else self._support.problem)

    def names(self, placement: ContainerPlacement) -> tuple[str, ...]:
        """Return the names for a container; none where the option is off.

        Raises:
            CdiError: kubelet or runtime may not pass them on, or the spec can't be written.
        """
        if self._support is None:
            return ()
        self._support.require()
        self._keep()
        return spec.names(self._domain, placement)

    def start(self, tasks: Tasks) -> None:
        """Write the spec, or remove it, before a container starts; keep it so as a task."""
        if self._look():
            tasks.start("cdi", self._run)

    def _run(self, stop: threading.Event) -> None:
        """Keep the spec until `stop` is set, or until nothing needs it.

        Raises:
            CdiUnsupported: kubelet or runtime is another one now; the agent's next start says so.
        """
        while not stop.wait(_LOOK_SECONDS) and self._look():
            if self._support is not None:
                self._support.look()

    def _look(self) -> bool:
        """Keep the spec or remove it; return whether it is needed."""
        if self._support is None and not self._is_named():
            self._remove()
            return False
        problem = ""
        try:
            self._keep()
        except CdiError as error:
            problem = str(error)
            if problem != self._file_problem:
                logger.warning("devices can't be given by CDI: %s", problem)
        self._file_problem = problem
        return True

    def _keep(self) -> None:
        cards = {card.uuid: self._nodes.at(card_path(card.minor)) for card in self._cards()}
        content = spec.encode(
            self._domain,
            cards,
            share=self._besides(is_share=True),
            whole_cards=self._besides(is_share=False),
        )
        try:
            with self._lock:
                if self._file.keep(content):
                    logger.info("CDI spec written path=%s cards=%d", self._file.path, len(cards))
        except OSError as error:
            raise CdiError(
                f"{self._file.path} can't be written: {error}; see to its folder (cdi.spec_dir),"
                " then restart gpustack-agent"
            ) from error

    def _besides(self, *, is_share: bool) -> list[HostNode]:
        paths = self._nodes.besides(is_share=is_share)
        return [node for path in paths for node in self._nodes.at(path)]

    def _is_named(self) -> bool:
        """Say whether the kubelet may start a container with our names."""
        try:
            given = self._kubelet.given()
        except KubeletCheckpointMissing:
            return False
        except KubeletCheckpointError as error:
            logger.debug("a CDI spec that is there stays for now: %s", error)  # the audit warns
            return self._file.path.exists()
        return any(spec.is_ours(self._domain, name) for each in given for name in each.cdi_devices)

    def _remove(self) -> None:
        try:
            if self._file.remove():
                logger.info("CDI spec removed path=%s", self._file.path)
        except OSError as error:
            # It does no harm: only an answer that the kubelet keeps would name it.
            logger.warning("a CDI spec that nothing needs is left: %s", error)
