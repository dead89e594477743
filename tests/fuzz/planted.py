"""A parser with a fault, which the fuzzer must find: it proves that a finding ends a run."""

from tests.fuzz.harness import Target


def check(data: bytes) -> None:
    """Fail for an input that is found letter by letter, and by chance once in 10⁹ tries."""
    if data[:1] == b"G" and data[1:2] == b"P" and data[2:3] == b"U" and data[3:4] == b"-":
        raise KeyError("planted")


TARGET = Target(check=check, seeds=[b"seeded"], words=[], limit_bytes=64)
