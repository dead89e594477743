"""Events for hypothesis to draw: a draw doesn't depend on the state, so runs shrink."""

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from tests.extender.stateful.quotas import NAMESPACES
from tests.fakes.kube_store import KubeObject

Ask = tuple[int, int | None]  # cores, and memory in units

NODES = ("n1", "n2")
# Large ones: two decisions about the same card rarely fit on it.
ASKS: list[Ask] = [(40, 100), (60, 200), (70, 100), (100, None), (100, None), (200, None)]
SMALL_ASKS: list[Ask] = [(30, 40), (40, 60), (60, 90)]
NAMES = [f"p{at}" for at in range(8)]
PROBES: list[Ask] = [(30, 100), (70, 250), (100, None), (200, None)]

WHICH = st.integers(0, 1000)
ONE = st.integers(0, 1)
# Events of an API call: for the answer, for the process, or meanwhile for others.
EVENTS = [
    "crash", "crash after", "cut", "cut after", "silent", "late", "late", "403", "409", "429",
    "500", "504 after",
    "before", "before", "before", "after", "after", "after",
]  # fmt: skip
SCHEDULING = [
    "predicates", "cycle", "predicates", "cycle", "cycle", "as promised", "give up", "catch up",
    "keep up", "land",
]  # fmt: skip
MEANWHILE = [
    "deliver", "label", "choose", "delete", "replace", "rival", "rival with another", "another",
    "later", "land",
]  # fmt: skip
TOUCHES = [
    "delete", "delete", "finish", "finish", "end", "label", "choose", "ungate", "strip", "forge",
    "forge", "replace",
]  # fmt: skip
# Calls to let pass, whether only writes count, the event, the event meanwhile; which of many.
Planned = tuple[int, bool, str, str, int]
Plan = list[Planned]
EVENT = st.tuples(
    st.integers(0, 2), st.booleans(), st.sampled_from(EVENTS), st.sampled_from(MEANWHILE), WHICH
)
PLAN = st.lists(EVENT, max_size=4)


Op = tuple[str, dict[str, Any]]


def op(name: str, **draws: st.SearchStrategy[Any]) -> st.SearchStrategy[Op]:
    """A method of the machine, and its arguments."""
    return st.tuples(st.just(name), st.fixed_dictionaries(draws))


Step = tuple[str, int, int, int]  # a scheduler's action, and numbers of pod, instance, node
SCHEDULE = op(
    "schedule",
    steps=st.lists(st.tuples(st.sampled_from(SCHEDULING), WHICH, ONE, ONE), min_size=1, max_size=5),
    plan=PLAN,
)


def arrival(
    copies: tuple[int, int], priorities: list[int], *more: str
) -> st.SearchStrategy[dict[str, Any]]:
    """The arguments of ``users.arrive``."""
    return st.fixed_dictionaries(
        {
            "ask": st.sampled_from(ASKS),
            "namespace": st.sampled_from(NAMESPACES),
            "more": st.sampled_from(["", "", "", *more]),
            "priority": st.sampled_from(priorities),
            "copies": st.integers(*copies),
        }
    )


@st.composite
def _lost(draw: st.DrawFn) -> Op:
    """The answer to a decision and some later ones are lost, as while a network is down.

    The same instance gets requests for other pods then; its calls may take effect at any time.
    """
    asked = draw(ONE)
    asking = st.sampled_from(["predicates", "cycle", "cycle"])
    verb = draw(asking)
    first: Planned = 0, True, draw(st.sampled_from(LOST[verb])), "later", 0
    after: Plan = [
        (0, False, what, "later", 0) for what in draw(st.lists(st.sampled_from(DOWN), max_size=4))
    ]
    later = st.tuples(st.one_of(asking, asking, st.just("land")), WHICH, st.just(asked), ONE)
    steps: list[Step] = [
        (verb, 0, asked, draw(ONE)),
        *draw(st.lists(later, min_size=1, max_size=4)),
    ]
    story = {
        "arrival": draw(arrival((2, 3), [0])),
        "asked": asked,
        "free": draw(st.lists(WHICH, min_size=1, max_size=3)),
        "steps": steps,
        "plan": [first, *after, *draw(st.lists(EVENT, max_size=1))],
    }
    return "lose", story


DOWN = ["silent", "silent", "silent", "cut", "403", "429", "500"]
LOST = {
    "predicates": ["late", "cut after", "504 after", "504 after", "403"],
    "cycle": ["late", "late", "late", "504 after", "500"],
}
LOSE = _lost()
ARRIVE = arrival((1, 3), [0, 0, 10], "sidecar", "second", "gated", "choosy").map(
    lambda values: ("arrive", values)
)
URGENT = op(
    "urgent",
    crowd=st.lists(st.tuples(st.sampled_from(SMALL_ASKS), st.sampled_from([0, 10])), max_size=5),
    arrival=arrival((1, 1), [10, 10, 20], "second", "choosy"),
    asked=ONE,
    where=ONE,
    plan=PLAN,
    leave=st.integers(0, 2),
    others=st.lists(WHICH, max_size=3),
)
TOUCH = op(
    "touch",
    whiches=st.lists(WHICH, min_size=1, max_size=3),
    how=st.sampled_from(TOUCHES),
)
RECONFIGURE = op(
    "reconfigure",
    what=st.sampled_from([*NODES, "quota"]),
    card=ONE,
    how=st.sampled_from(["sick", "well", "gone", "back", "moved"]),
    quota=WHICH,
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
# One rule draws all events: with a rule for each, most runs would leave these rules out, and too
# many of the other runs would repeat one event over and over.
OPS = st.one_of(
    SCHEDULE, SCHEDULE, SCHEDULE, LOSE, LOSE, ARRIVE, ARRIVE, URGENT, URGENT, TOUCH, TOUCH,
    RECONFIGURE, DELIVER, DELIVER, DELIVER, DISTURB, ADVANCE, ADVANCE, WAKE, SETTLE,
)  # fmt: skip


def chosen(among: Iterable[KubeObject], which: int) -> list[KubeObject]:
    """One of these objects, or none of an empty list."""
    found = list(among)
    return [found[which % len(found)]] if found else []
