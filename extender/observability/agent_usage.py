"""Asking the nodes' agents how busy their cards are, once a minute.

Nothing is decided by it, and no lock is held while an agent is asked. A node may answer anything,
slowly or without end. It sees a client certificate and never the extender's token; its answer is
bounded in time and bytes, and costs only what is known of that node; and a node without an answer
is asked less often, so that many of them don't keep the others waiting.
"""

import concurrent.futures
import logging
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from extender.cache.cache import ClusterCache
from extender.observability.card_utilisation import CardUtilisation
from extender.settings import UsageSource
from gpustack.adapters import http_get
from gpustack.adapters.web import remote_metrics
from gpustack.adapters.web.tls import TlsContexts, TlsError
from gpustack.model.errors import GpustackError
from gpustack.model.node import Node
from gpustack.model.units import MOST_CARDS

logger = logging.getLogger(__name__)

_MOST_BYTES: Final = 2 << 20  # a share's metrics have 2 KB; to search so much takes 15 ms at most
_PACE_SECONDS: Final = 0.05  # from a question to the next: at most 1200 nodes a minute
_EMPTY_SECONDS: Final = 1.0  # until the next look, while no node with cards is known
_OK: Final = 200

_AGENT: Final = b"\ngpustack_build_info{"
_BUSY: Final = b"\ngpustack_card_busy_ratio{"
_SAMPLE: Final = re.compile(
    rb'minor="[0-9]{1,7}",uuid="([A-Za-z0-9._/-]{1,96})"\} ([0-9][0-9.e+-]{0,23})\n'
)


class NoAgentMetrics(GpustackError):
    """A node's answer isn't an agent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How much the questions may take.

    Attributes:
        every_seconds: from a question of a node to its next, longer where there are many nodes.
        answer_seconds: for a whole answer; a busy host's agent needs a second.
        at_once: questions that wait for their answers. 480 nodes that drip bytes keep the others
            waiting for as long as a reading counts, once.
    """

    every_seconds: float = 60.0
    answer_seconds: float = 5.0
    at_once: int = 16


class AgentUsage:
    """Asks the agents from `start` to `stop`.

    Args:
        cache: names the nodes, their cards and their addresses.
        usage: gets the answers.
        source: how agents are asked.
        pace: how much the questions may take.
    """

    def __init__(
        self,
        cache: ClusterCache,
        usage: CardUtilisation,
        source: UsageSource,
        *,
        pace: Pace = Pace(),
    ) -> None:
        self._cache, self._usage, self._pace = cache, usage, pace
        self._port = source.port
        self._contexts = TlsContexts(source.tls, required=False)
        self._problem = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agent-usage", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """End it; safe to call when nothing was started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def round(self, threads: concurrent.futures.Executor) -> bool:
        """Ask each node whose turn it is, spread over the time of a round; False: there is none."""
        began = time.monotonic()
        found = ((node, self._cache.host(node.name).address) for node in self._cache.card_nodes)
        reached = [(node, address) for node, address in found if address]
        turn = self._usage.begin_round([node.name for node, _ in reached])
        asked = [(node, address) for node, address in reached if node.name in turn]
        gap = max(_PACE_SECONDS, self._pace.every_seconds / max(1, len(asked)))
        going: set[concurrent.futures.Future[None]] = set()
        for number, (node, address) in enumerate(asked):
            if self._stop.wait(max(0.0, began + number * gap - time.monotonic())):
                break
            if len(going) == self._pace.at_once:
                going = _without_ended(going, concurrent.futures.FIRST_COMPLETED)
            going.add(threads.submit(self._ask, node, address))
        _without_ended(going, concurrent.futures.ALL_COMPLETED)
        self._tell()
        return bool(reached)

    def _run(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(self._pace.at_once, "agent-usage") as threads:
            while not self._stop.is_set():
                began = time.monotonic()
                seconds = self._pace.every_seconds if self.round(threads) else _EMPTY_SECONDS
                self._stop.wait(max(0.0, began + seconds - time.monotonic()))

    def _ask(self, node: Node, address: str) -> None:
        host = f"[{address}]" if ":" in address else address
        url = f"https://{host}:{self._port}{remote_metrics.PATH}"
        try:
            answer = http_get.get(
                url,
                seconds=self._pace.answer_seconds,
                max_bytes=_MOST_BYTES,
                tls=self._contexts.current().openssl,
            )
            if answer.status != _OK:
                raise NoAgentMetrics(f"{url}: answers with status {answer.status}")
            busy = read(answer.body, (card.uuid for card in node.cards))
        except (http_get.HttpGetError, TlsError, NoAgentMetrics) as error:
            self._usage.miss(node.name, str(error))
        else:
            self._usage.keep(node.name, busy)

    def _tell(self) -> None:
        """Log which nodes don't answer, when that changes."""
        problem = self._usage.problem
        if problem and problem != self._problem:
            logger.warning("utilisation is not known %s", problem)
        elif self._problem and not problem:
            logger.info("every agent says how busy its cards are")
        self._problem = problem


def read(text: bytes, uuids: Iterable[str]) -> Mapping[str, float]:
    """Return what an agent's metrics say of these cards: the busy part of each one's time.

    Raises:
        NoAgentMetrics: they are no agent's, or say what can't be.
    """
    if _AGENT not in text:
        raise NoAgentMetrics("the answer has no metrics of an agent")
    said = {found[1].decode(): found[2] for found in _samples(text)}
    return {uuid: _ratio(said[uuid]) for uuid in uuids if uuid in said}


def _samples(text: bytes) -> Iterator[re.Match[bytes]]:
    """Return the first lines about cards, as many as a node can have."""
    at = 0
    for _ in range(MOST_CARDS):
        if (at := text.find(_BUSY, at)) < 0:
            return
        at += len(_BUSY)
        if (found := _SAMPLE.match(text, at)) is not None:
            yield found


def _ratio(text: bytes) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise NoAgentMetrics(f"a card is busy for {text.decode()!r} of its time; 1 is the most")
    return round(ratio, 2)  # NVML says whole percents


def _without_ended(
    going: set[concurrent.futures.Future[None]], when: str
) -> set[concurrent.futures.Future[None]]:
    """Wait, and return those that go on; a defect in one that has ended is raised here."""
    ended, going = concurrent.futures.wait(going, return_when=when)
    for each in ended:
        each.result()
    return going
