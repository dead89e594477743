"""Messages that any client can cause are logged at a limited rate."""

from hypothesis import given
from hypothesis import strategies as st

from gpustack.adapters.web.rate_limited_log import RateLimitedLog

SECONDS = 10.0
MOST = 256


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from("abc")), max_size=60))
def test_the_same_message_is_logged_once_in_ten_seconds(asked: list[tuple[float, str]]) -> None:
    clock = Clock()
    seldom = RateLimitedLog(clock=clock)
    said: dict[str, float] = {}
    for pause, words in asked:
        clock.now += pause
        expected = clock.now - said.get(words, -SECONDS) >= SECONDS
        assert seldom.may_say(words) == expected
        if expected:
            said[words] = clock.now


def test_messages_that_differ_each_time_are_logged_up_to_a_limit() -> None:
    clock = Clock()
    seldom = RateLimitedLog(clock=clock)
    assert sum(seldom.may_say(str(number)) for number in range(10_000)) == MOST
    clock.now += SECONDS
    assert sum(seldom.may_say(str(number)) for number in range(10_000)) == MOST
