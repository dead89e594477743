"""What a container may ask, and how a refusal tells what to do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.request import BadRequest, ContainerRequest, check_container
from gpustack.model.units import LARGEST_CARD_UNITS, MEMORY_UNIT_BYTES, size_text

CORE = "spec.containers[0].resources.limits[tencent.com/vcuda-core]"
MEMORY = "spec.containers[0].resources.limits[tencent.com/vcuda-memory]"


@pytest.mark.parametrize(
    ("cores", "memory", "field", "advice"),
    [
        (150, 10, CORE, "use 100 or 200"),
        (101, 0, CORE, "use 100 or 200"),
        (50, 0, CORE, f"set {MEMORY}"),
        (0, 8, MEMORY, f"set {CORE} too"),
        (-1, 8, CORE, "negative"),
        (50, -8, MEMORY, "negative"),
    ],
)
def test_an_impossible_request_is_refused_with_the_field_and_the_cure(
    cores: int, memory: int, field: str, advice: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        check_container(
            name="c",
            index=0,
            cores=cores,
            memory_units=memory,
            core_field=CORE,
            memory_field=MEMORY,
        )
    assert caught.value.field == field
    assert caught.value.message.startswith(f"{field}: ")
    assert advice in caught.value.message


@pytest.mark.parametrize(
    ("cores", "units", "told"),
    [
        (50, 8 << 30, "asks 8589934592 units of 256 MiB (2 EiB); for 8 GiB write 32"),
        (50, 8 * 10**9, "(1.86 EiB); for 7.5 GiB write 30"),
        (50, 512 << 20, "(128 PiB); for 512 MiB write 2"),
        (50, 81920, "asks 81920 units of 256 MiB (20 TiB); for 80 GiB write 320"),
        (200, 80 << 30, "(20 EiB); for 80 GiB write 320"),
    ],
)
def test_memory_that_is_no_size_of_a_card_is_told_in_units(
    cores: int, units: int, told: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        check_container(name="c", index=0, cores=cores, memory_units=units, memory_field=MEMORY)
    assert caught.value.message.startswith(f"{MEMORY}: asks {units} units of 256 MiB (")
    assert caught.value.message.endswith(told)


@given(st.integers(1, LARGEST_CARD_UNITS))
def test_the_advice_for_bytes_is_a_request_of_that_size(units: int) -> None:
    with pytest.raises(BadRequest) as caught:
        ContainerRequest(name="c", index=0, cores=50, memory_units=units * MEMORY_UNIT_BYTES)
    assert caught.value.message.endswith(f"; for {size_text(units)} write {units}")
    ContainerRequest(name="c", index=0, cores=50, memory_units=units)


@given(st.integers(-300, 900), st.integers(-5, 300))
def test_every_pair_of_limits_is_a_share_whole_cards_nothing_or_refused(
    cores: int, memory: int
) -> None:
    allowed = (1 <= cores <= 99 and memory > 0) or (cores >= 100 and cores % 100 == 0)
    nothing = cores == 0 and memory == 0
    try:
        found = check_container(name="c", index=3, cores=cores, memory_units=memory)
    except BadRequest:
        assert memory < 0 or not (allowed or nothing)
        return
    assert memory >= 0
    if found is None:
        assert nothing
        return
    assert allowed
    assert (found.cores, found.memory_units, found.index) == (cores, memory, 3)
    assert found.is_share is (cores < 100)
    assert found.whole_cards == cores // 100
    assert found.card_count == max(1, cores // 100)


@given(st.integers(-300, 500), st.integers(-2, 2))
def test_a_request_exists_exactly_where_the_limits_can_ask_it(cores: int, memory: int) -> None:
    try:
        asked = check_container(name="c", index=0, cores=cores, memory_units=memory)
    except BadRequest:
        asked = None
    if asked is None:
        with pytest.raises(BadRequest, match=r"^(cores|memory_units): "):
            ContainerRequest(name="c", index=0, cores=cores, memory_units=memory)
    else:
        made = ContainerRequest(name="c", index=0, cores=cores, memory_units=memory)
        assert made == asked
