"""Traces as CSV: our own columns, and those of the FGD paper's published trace.

Ours: `arrival,duration,cores,memory,count`, in any order: seconds, seconds (empty: the pod stays),
hundredths of a card, units of 256 MiB, and how many like pods arrive together (left out: 1).

The paper's (Alibaba's cluster-trace-gpu-v2023, `openb_pod_list_*.csv`): `num_gpu` cards or, for
one, `gpu_milli` thousandths of it, from `creation_time` to `deletion_time`. It says nothing of GPU
memory, so a share gets as large a part of a card's memory as of its compute. Pods without GPU
are passed over, and so are the columns of CPU, host memory and `gpu_spec`, whose names are not
those of cards.
"""

import csv
import io
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from gpustack.model.cluster.replay import Arrival
from gpustack.model.errors import GpustackError
from gpustack.model.request import BadRequest, PodRequest, check_container
from gpustack.model.units import CORES_PER_CARD

COLUMNS: Final = ("arrival", "duration", "cores", "memory", "count")
_OPTIONAL: Final = frozenset({"count"})
_PAPER: Final = ("num_gpu", "gpu_milli", "creation_time", "deletion_time")
_MOST_PODS: Final = 1_000_000  # an hour of play; a count beyond it is a slip of the finger
_MILLI: Final = 1000  # the paper's thousandths
_DECIMAL: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_WHOLE: Final = re.compile(r"[0-9]{1,9}")


class BadTrace(GpustackError, ValueError):
    """A trace that can't be played; the message names file, line and column."""


def parse_trace(path: str, text: str, *, card_memory_units: int) -> tuple[Arrival, ...]:
    """Read a trace.

    Args:
        path: the file, for errors.
        text: what stands in it.
        card_memory_units: memory of the card that the shares of the paper's trace refer to.

    Raises:
        BadTrace: a column is missing or unknown, or a row asks for an impossible amount.
    """
    if not text.strip():
        raise BadTrace(f"{path}: is empty; the first line names {','.join(COLUMNS)}")
    rows = _rows(path, text)
    header = [name.strip() for name in next(rows)[1]]
    paper = "num_gpu" in header
    _check_header(path, header, paper=paper)
    arrivals: list[Arrival] = []
    pods = 0
    for line, values in rows:
        if not any(value.strip() for value in values):
            continue
        row = _Row(f"{path}:{line}", header, values)
        found = _from_paper(row, card_memory_units) if paper else _own(row)
        if found is None:
            continue
        pods += found.count
        if pods > _MOST_PODS:
            raise row.error("count", f"the trace has more than {_MOST_PODS} pods up to here")
        arrivals.append(found)
    if not arrivals:
        raise BadTrace(f"{path}:1: no pods")
    return tuple(arrivals)


def _rows(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield every row with the line that it ends on."""
    rows = csv.reader(io.StringIO(text, newline=""))
    while True:
        try:
            values = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise BadTrace(f"{path}:{rows.line_num}: {error}") from error
        yield rows.line_num, values


def shuffled(arrivals: Iterable[Arrival], seed: int) -> tuple[Arrival, ...]:
    """Draw the order of pods that arrive at the same moment; one seed, one order."""
    drawn = list(arrivals)
    random.Random(seed).shuffle(drawn)  # noqa: S311  # a simulation, no secret
    return tuple(sorted(drawn, key=lambda each: each.at))


class _Row:
    """One row: its values by column, each error with its place."""

    def __init__(self, place: str, header: Sequence[str], values: Sequence[str]) -> None:
        self.place = place
        if len(values) != len(header):
            raise BadTrace(f"{place}: {len(values)} values for {len(header)} columns")
        self._values: Mapping[str, str] = dict(
            zip(header, (value.strip() for value in values), strict=True)
        )

    def text(self, column: str) -> str:
        return self._values.get(column, "")

    def seconds(self, column: str) -> float:
        return float(self._matched(column, _DECIMAL, "a number of seconds"))

    def whole(self, column: str) -> int:
        return int(self._matched(column, _WHOLE, "a whole number"))

    def error(self, column: str, problem: str) -> BadTrace:
        return BadTrace(f"{self.place}: {column}: {problem}")

    def _matched(self, column: str, pattern: re.Pattern[str], wanted: str) -> str:
        text = self.text(column)
        if pattern.fullmatch(text) is None:
            raise self.error(column, f"{text!r} is not {wanted}")
        return text


def _check_header(path: str, header: Sequence[str], *, paper: bool) -> None:
    wanted = _PAPER if paper else COLUMNS
    missing = [name for name in wanted if name not in header and name not in _OPTIONAL]
    unknown = [] if paper else [name for name in header if name not in wanted]
    twice = [name for name in wanted if header.count(name) > 1]
    for problem, names in (("missing", missing), ("unknown", unknown), ("doubled", twice)):
        if names:
            raise BadTrace(
                f"{path}:1: {problem} columns: {', '.join(map(repr, names))}; "
                f"the first line names {','.join(wanted)}"
            )


def _own(row: _Row) -> Arrival:
    stays = not row.text("duration")
    duration = None if stays else row.seconds("duration")
    if duration == 0:
        raise row.error("duration", "must be above 0; leave it empty for a pod that stays")
    count = row.whole("count") if row.text("count") else 1
    if count == 0:
        raise row.error("count", "must be above 0")
    request = _request(row, row.whole("cores"), row.whole("memory"))
    return Arrival(at=row.seconds("arrival"), duration=duration, request=request, count=count)


def _from_paper(row: _Row, card_memory_units: int) -> Arrival | None:
    cards = row.whole("num_gpu")
    if cards == 0:
        return None
    at, until = row.seconds("creation_time"), row.seconds("deletion_time")
    if until <= at:
        return None  # deleted before it could run: the trace has some
    milli = row.whole("gpu_milli")
    if cards > 1 or milli == _MILLI:
        return Arrival(at=at, duration=until - at, request=_request(row, cards * CORES_PER_CARD, 0))
    if not 0 < milli < _MILLI:
        raise row.error("gpu_milli", f"{milli} is not 1 to {_MILLI} thousandths of a card")
    cores = -(-milli * CORES_PER_CARD // _MILLI)
    memory = max(1, card_memory_units * milli // _MILLI)
    if cores == CORES_PER_CARD:  # 991 to 999 thousandths: no share is that large
        return Arrival(at=at, duration=until - at, request=_request(row, CORES_PER_CARD, 0))
    return Arrival(at=at, duration=until - at, request=_request(row, cores, memory))


def _request(row: _Row, cores: int, memory_units: int) -> PodRequest:
    try:
        container = check_container(
            name="main", index=0, cores=cores, memory_units=memory_units,
            core_field="cores", memory_field="memory",
        )  # fmt: skip
    except BadRequest as error:
        raise BadTrace(f"{row.place}: {error}") from error
    if container is None:
        raise row.error("cores", "0 cores are no GPU pod; ask for 1 to 99, or for 100 a card")
    return PodRequest(containers=(container,))
