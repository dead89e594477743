"""How long a verdict about a token counts, how many are kept, and who waits for whom."""

import concurrent.futures
import threading

import pytest

from gpustack.adapters.web import token_verdicts
from tests.adapters.web.reading import PROMETHEUS, TOKEN, Site

REVIEW = "/tokenreviews$"


def test_the_api_server_is_asked_about_a_token_once_a_minute(site: Site) -> None:
    with site.serving():
        for now in (0.0, 15.0, 30.0, 59.0, 60.0, 75.0):
            site.clock.now = now
            assert site.ask(TOKEN).status == 200
        assert len(site.api.asked("POST", REVIEW)) == 2


def test_a_right_that_is_withdrawn_ends_after_a_minute(site: Site) -> None:
    with site.serving():
        assert site.ask(TOKEN).status == 200
        site.api.rights.clear()
        site.clock.now = 59.0
        assert site.ask(TOKEN).status == 200
        site.clock.now = 60.0
        assert site.ask(TOKEN).status == 403


def test_a_right_that_is_given_counts_after_ten_seconds(site: Site) -> None:
    site.api.rights.clear()
    with site.serving():
        assert site.ask(TOKEN).status == 403
        site.api.rights.add((PROMETHEUS, "get", "/metrics"))
        site.clock.now = 9.0
        assert site.ask(TOKEN).status == 403
        site.clock.now = 10.0
        assert site.ask(TOKEN).status == 200


def test_a_verdict_counts_no_longer_while_the_api_server_is_away(site: Site) -> None:
    with site.serving():
        assert site.ask(TOKEN).status == 200
        site.api.stop()
        site.clock.now = 59.0
        assert site.ask(TOKEN).status == 200
        site.clock.now = 60.0
        assert site.ask(TOKEN).status == 503


def test_invented_tokens_displace_no_accepted_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_verdicts, "_MOST", 3)
    with site.serving():
        assert site.ask(TOKEN).status == 200
        assert {site.ask(f"invented{number}").status for number in range(5)} == {401}
        asked = len(site.api.requests)
        assert site.ask(TOKEN).status == 200
        assert site.ask("invented4").status == 401
        assert len(site.api.requests) == asked
        assert site.ask("invented0").status == 401
        assert len(site.api.requests) == asked + 1


def test_a_reader_whose_verdict_has_ended_waits_behind_no_invented_token(site: Site) -> None:
    with site.serving(), concurrent.futures.ThreadPoolExecutor(8) as strangers:
        assert site.ask(TOKEN).status == 200
        site.clock.now = 60.0
        held = site.api.faults.hold("POST", REVIEW)
        asking = [strangers.submit(site.ask, f"invented{number}") for number in range(8)]
        assert held.reached.wait(10)
        assert site.ask(TOKEN).status == 200
        assert not any(each.done() for each in asking)
        held.release()
        assert {each.result().status for each in asking} == {401}


def test_too_many_invented_tokens_are_not_asked_about(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_verdicts, "_MOST_WAITING", 1)
    with site.serving(), concurrent.futures.ThreadPoolExecutor(1) as strangers:
        held = site.api.faults.hold("POST", REVIEW)
        asking = strangers.submit(site.ask, "invented")
        assert held.reached.wait(10)
        assert site.ask("another").status == 503
        held.release()
        assert asking.result().status == 401


def test_a_token_is_asked_about_once_for_all_who_show_it(site: Site) -> None:
    with site.serving(), concurrent.futures.ThreadPoolExecutor(8) as readers:
        held = site.api.faults.hold("POST", REVIEW)
        asking = [readers.submit(site.ask, TOKEN) for _ in range(8)]
        assert held.reached.wait(10)
        held.release()
        assert {each.result().status for each in asking} == {200}
        assert len(site.api.asked("POST", REVIEW)) == 1


def test_a_stop_while_a_question_is_open_logs_no_defect(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as strangers:
        with site.serving():
            held = site.api.faults.hold("POST", REVIEW)
            asking = strangers.submit(site.ask, "invented")
            assert held.reached.wait(10)
        held.release()
        assert isinstance(asking.exception(), OSError)
        # The question's thread goes on until its answer is there.
        for thread in threading.enumerate():
            if thread.name.startswith("token-new"):
                thread.join(10)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
