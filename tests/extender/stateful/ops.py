"""What may happen, for hypothesis to draw: no draw depends on what is there, so runs shrink."""

from typing import Any

from hypothesis import strategies as st

NODES = ("n1", "n2")
# Large ones: two decisions about the same card rarely fit on it.
ASKS = [(40, 100), (60, 200), (70, 100), (100, None), (100, None), (200, None)]
NAMES = [f"p{at}" for at in range(8)]
PROBES = [(30, 100), (70, 250), (100, None), (200, None)]

WHICH = st.integers(0, 1000)
ONE = st.integers(0, 1)
# What happens at an API call: to the answer, to the process, or meanwhile to others.
EVENTS = [
    "crash", "crash after", "cut", "cut after", "silent", "late", "late", "409", "429", "500",
    "504 after",
    "before", "before", "before", "after", "after", "after",
]  # fmt: skip
SCHEDULING = [
    "predicates", "bind", "predicates", "bind", "as promised", "give up", "catch up", "land",
]  # fmt: skip
MEANWHILE = ["deliver", "label", "delete", "rival", "rival with another", "another", "later"]
PLAN = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.booleans(),
        st.sampled_from(EVENTS),
        st.sampled_from(MEANWHILE),
        WHICH,
    ),
    max_size=4,
)
Plan = list[tuple[int, bool, str, str, int]]


Op = tuple[str, dict[str, Any]]


def op(name: str, **draws: st.SearchStrategy[Any]) -> st.SearchStrategy[Op]:
    """A method of the machine, and what it is called with."""
    return st.tuples(st.just(name), st.fixed_dictionaries(draws))


SCHEDULE = op(
    "schedule",
    steps=st.lists(st.tuples(st.sampled_from(SCHEDULING), WHICH, ONE, ONE), min_size=1, max_size=5),
    plan=PLAN,
)
ARRIVE = op(
    "arrive",
    ask=st.sampled_from(ASKS),
    limited=st.booleans(),
    more=st.sampled_from(["", "", "", "sidecar", "second", "gated"]),
    copies=st.integers(1, 3),
)
TOUCH = op(
    "touch",
    whiches=st.lists(WHICH, min_size=1, max_size=3),
    how=st.sampled_from(
        ["delete", "delete", "finish", "finish", "end", "label", "ungate", "strip", "forge"]
    ),
)
RECONFIGURE = op(
    "reconfigure",
    what=st.sampled_from([*NODES, "quota"]),
    card=ONE,
    how=st.sampled_from(["sick", "well", "gone", "back"]),
    cards=st.sampled_from([None, "broken", 0.3, 1.0, 2.5]),
)
DELIVER = op(
    "deliver",
    which=ONE,
    watch=st.sampled_from(["nodes", "pods", "pods", "quota"]),
    count=st.sampled_from([0, 1, 2, 1000]),
    bookmark=st.booleans(),
)
DISTURB = op(
    "disturb",
    what=st.sampled_from(["crash", "crash", "compact", "land", "clock"]),
    which=ONE,
    seconds=st.sampled_from([-10.0, 0.0, 10.0]),
)
ADVANCE = op("advance", seconds=st.sampled_from([1, 6, 11, 31, 200, 900]))
WAKE = op("wake", which=ONE, plan=PLAN)
SETTLE = op("settle", crash=st.sampled_from([(), (0,), (0, 1)]), free=st.lists(WHICH, max_size=2))
# One rule draws them all: rules of their own would be left out of most runs, and too many of the
# runs that are left would do nothing but one thing over and over.
OPS = st.one_of(
    SCHEDULE, SCHEDULE, SCHEDULE, SCHEDULE, ARRIVE, ARRIVE, TOUCH, TOUCH, RECONFIGURE,
    DELIVER, DELIVER, DELIVER, DISTURB, ADVANCE, ADVANCE, WAKE, SETTLE,
)  # fmt: skip
