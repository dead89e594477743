"""A demand that is called hopeless is; each bound sees a demand that the others miss."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.search.bounds import FreeCapacity, demands, hopeless
from gpustack.model.units import LARGEST_CARD_UNITS
from tests.model.machines import pod

rooms = st.lists(
    st.one_of(
        st.builds(
            FreeCapacity,
            cores=st.integers(0, 100),
            memory_units=st.integers(0, 26),
            idle=st.just(False),
        ),
        st.builds(
            FreeCapacity, cores=st.just(100), memory_units=st.integers(1, 26), idle=st.just(True)
        ),
    ),
    max_size=4,
)

# Small amounts come twice, so that shares often fit beside each other.
amounts = st.one_of(st.integers(1, 40), st.integers(1, 99))
asks = st.one_of(
    st.tuples(amounts, st.one_of(st.integers(1, 8), st.integers(1, 26))),
    st.tuples(st.sampled_from([100, 200]), st.just(0)),
)


def fits(several: list[FreeCapacity], wholes: int, shares: list[tuple[int, int]]) -> bool:
    """Try every way to put shares beside each other, whole cards alone on idle ones."""
    idle = [at for at, room in enumerate(several) if room.idle]
    for taken in itertools.combinations(idle, wholes):
        left = [room for at, room in enumerate(several) if at not in taken]
        for places in itertools.product(range(len(left)), repeat=len(shares)):
            held = [
                [share for share, place in zip(shares, places, strict=True) if place == at]
                for at in range(len(left))
            ]
            if all(
                sum(cores for cores, _ in here) <= room.cores
                and sum(units for _, units in here) <= room.memory_units
                for room, here in zip(left, held, strict=True)
            ):
                return True
    return False


@given(rooms, st.lists(asks, min_size=1, max_size=5))
def test_a_demand_that_fits_is_never_called_hopeless(
    several: list[FreeCapacity], wanted: list[tuple[int, int]]
) -> None:
    wholes = sum(cores // 100 for cores, _ in wanted)
    shares = [ask for ask in wanted if ask[0] < 100]
    if fits(several, wholes, shares):
        assert not hopeless(several, demands(pod(*wanted).containers))


def idle(*units: int) -> list[FreeCapacity]:
    return [FreeCapacity(cores=100, memory_units=each, idle=True) for each in units]


@pytest.mark.parametrize(
    ("several", "wanted"),
    [
        pytest.param(idle(64), [(200, 0)], id="too few idle cards"),
        pytest.param(idle(64, 64), [(100, 0), (60, 8), (60, 8)], id="too few cores in all"),
        pytest.param(idle(64, 16), [(10, 40), (10, 41)], id="too little memory in all"),
        pytest.param(idle(64, 64), [(51, 1)] * 3, id="more large shares than cards"),
        pytest.param(idle(64, 64, 16), [(60, 40)] * 3, id="large in both, on cards of two sizes"),
        pytest.param(idle(64, 64), [(40, 1)] * 5, id="cores that no shares fill"),
        pytest.param(idle(64, 64), [(1, 30)] * 5, id="memory that no shares fill"),
        pytest.param(idle(), [(1, 1)], id="no card"),
    ],
)
def test_a_demand_beyond_one_of_the_bounds_is_hopeless(
    several: list[FreeCapacity], wanted: list[tuple[int, int]]
) -> None:
    assert hopeless(several, demands(pod(*wanted).containers))


def test_memory_of_any_size_is_summed_in_bounded_work() -> None:
    half = LARGEST_CARD_UNITS
    enormous = FreeCapacity(cores=100, memory_units=2 * half, idle=True)
    asked = demands(pod((10, half), (10, half), (10, 3)).containers)
    assert hopeless([enormous], asked)
    assert not hopeless([enormous, *idle(3)], asked)
