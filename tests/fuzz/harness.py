"""Runs one target under libFuzzer, by atheris: what a target is, and the bounds that hold for all.

A target drives a real parser of the product and asserts its rule: only the documented error comes
out, and what is accepted is within limits and survives a round trip. The harness adds the bounds:
processor time of one input, memory of the run, and no other way out of the process.
"""

import dataclasses
import json
import pathlib
import random
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import atheris

RSS_MIB: Final = 1024  # of a run: caches of the product take 100 MiB, the largest input 16
HANG_SECONDS: Final = 300  # libFuzzer's own bound, by the wall clock, for what never ends
LONGEST_BYTES: Final = 4096  # of an input before it is stretched: short ones find more a second
_STRETCHED: Final = 512  # one input of so many
_LONGEST_MESSAGE: Final = (
    1024  # what an Event keeps (kubernetes/pkg/apis/core/validation/events.go)
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parser, and what is known of its inputs.

    Attributes:
        check: drives the parser with an input; raises AssertionError where it broke its rule.
        seeds: good inputs, which the fuzzer begins with.
        words: what its inputs are made of.
        limit_bytes: of one input: the product's own, or that of the program that writes it.
        cpu_seconds: that an input of this size may take, with the fuzzer's instrumentation.
    """

    check: Callable[[bytes], None]
    seeds: Sequence[bytes]
    words: Sequence[str]
    limit_bytes: int
    cpu_seconds: float = 2.0

    def judge(self, data: bytes) -> None:
        """Check one input, and that it takes no more time than it may.

        Raises:
            AssertionError: a rule is broken. Whatever else the parser lets out goes through.
        """
        begun = time.process_time()
        try:
            self.check(stretched(data, self.limit_bytes))
            took = time.process_time() - begun
            assert took <= self.cpu_seconds, f"took {took:.1f} s of processor time"
        except BaseException:
            print(f"the input: {data!r}")  # libFuzzer's own file of it goes with its folder
            raise


def check_message(message: str) -> None:
    """Assert that a refusal fits into an Event, whatever its writer wrote."""
    assert len(message) <= _LONGEST_MESSAGE, message


def stretched(data: bytes, limit_bytes: int) -> bytes:
    """Return an input, or for a few its middle repeated up to the limit, and a byte beyond it.

    Which ones follows from their bytes, so that a finding is found again.
    """
    drawn = zlib.crc32(data)
    if drawn % _STRETCHED or not data:
        return data
    start, end = sorted((drawn >> 9) % (len(data) + 1) if at else len(data) // 4 for at in (0, 1))
    middle = data[start:end] or data
    count = max(1, (limit_bytes + 1 - len(data)) // len(middle))
    return data[:start] + middle * count + data[end:]


def run(target: Target, arguments: Sequence[str], folder: pathlib.Path) -> None:
    """Fuzz a target; the process ends with it, and with 0 where no rule was broken.

    Args:
        target: loaded under `atheris.instrument_imports`, without which nothing guides the fuzzer.
        arguments: libFuzzer's.
        folder: an empty one, for the inputs that led further and a finding.
    """
    corpus = folder / "corpus"
    corpus.mkdir()
    for at, seed in enumerate(target.seeds):
        (corpus / f"seed-{at}").write_bytes(seed)
    words = folder / "words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in ("null", *target.words)))
    options = [
        f"-dict={words}",
        f"-artifact_prefix={folder}/",
        f"-max_len={LONGEST_BYTES}",
        f"-rss_limit_mb={RSS_MIB}",
        f"-timeout={HANG_SECONDS}",
    ]
    atheris.Setup(["fuzz", *options, *arguments, str(corpus)], target.judge, custom_mutator=mutated)
    atheris.Fuzz()


def mutated(data: bytes, max_bytes: int, seed: int) -> bytes:
    """Return an input changed by libFuzzer; of JSON, half of the time a value in it is replaced.

    A change of bytes mostly ends in the JSON decoder, and proves nothing of what reads its values.
    """
    drawn = random.Random(seed)  # noqa: S311
    start = data.find(b"{", 0, 2)
    if start >= 0 and drawn.random() < 0.5:
        try:
            value = json.loads(data[start:])
        except (ValueError, RecursionError):
            return bytes(atheris.Mutate(data, max_bytes))
        _replace_one(value, drawn)
        return (data[:start] + json.dumps(value).encode())[:max_bytes]
    return bytes(atheris.Mutate(data, max_bytes))


_ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    1.5,
    1 << 64,
    float("inf"),
    "",
    "x",
    "\ud800",
    [],
    {},
    [[]],
)


def _replace_one(value: dict[str, Any], drawn: random.Random) -> None:
    """Replace, remove, move or repeat one value of a JSON object."""
    places = list(_places(value))
    if not places:
        return
    (holder, key), (other, place) = drawn.choice(places), drawn.choice(places)
    match drawn.randrange(4):
        case 0:
            del holder[key]
        case 1:
            holder[key] = json.loads(json.dumps(other[place]))
        case 2 if isinstance(holder, list):
            holder.append(json.loads(json.dumps(holder[key])))
        case _:
            holder[key] = json.loads(json.dumps(drawn.choice(_ODD)))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a JSON value: what holds it, and its key or index there."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in list(members):
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word.encode())
