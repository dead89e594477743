"""Processes that launch by a page that was replaced are named; honest ones never."""

import pytest

from tests.agent.activity.activity import Stage

SECOND_NS = 1_000_000_000


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.share("one")
    stage.write_ledger("one")
    pass_seconds(stage, 5)
    return stage


def pass_seconds(stage: Stage, seconds: int) -> None:
    for _ in range(seconds):
        stage.now_ns += SECOND_NS
        stage.sampler.look()


def reasons(stage: Stage) -> list[str]:
    return [each.reason for each in stage.events]


def launch(stage: Stage, page: int | None) -> None:
    stage.write_ledger("one", last_want_ns=stage.now_ns, page=page)


@pytest.mark.parametrize("page", [0, 1, 1 << 40], ids=["none", "the first", "one to come"])
def test_one_that_keeps_another_page_is_said_once(stage: Stage, page: int) -> None:
    for _ in range(5):
        launch(stage, page)
        pass_seconds(stage, 1)
    (event,) = stage.events
    assert event.reason == "OldPage"
    assert "1 of its processes" in str(event.message)
    assert stage.escapes.containers["OldPage"] == 1


def test_one_that_goes_by_the_last_page_is_not_said(stage: Stage) -> None:
    for _ in range(10):
        launch(stage, None)
        pass_seconds(stage, 1)
    assert reasons(stage) == []


def test_one_that_launches_no_more_keeps_its_page(stage: Stage) -> None:
    launch(stage, None)
    pass_seconds(stage, 60)
    assert reasons(stage) == []


def test_one_that_comes_back_says_so_before_it_reads_its_page(stage: Stage) -> None:
    for _ in range(3):
        pass_seconds(stage, 20)
        launch(stage, 1)  # the look falls between its wish and its reading
        pass_seconds(stage, 1)
        launch(stage, None)
        pass_seconds(stage, 1)
    assert reasons(stage) == []


def test_one_that_stands_still_after_its_wish_is_not_said(stage: Stage) -> None:
    launch(stage, 1)
    pass_seconds(stage, 30)
    assert reasons(stage) == []


def test_an_agent_that_has_just_begun_blames_nobody(stage: Stage) -> None:
    launch(stage, 1)
    stage.start_sampler()
    for _ in range(2):
        launch(stage, None)
        pass_seconds(stage, 1)
    assert reasons(stage) == []
