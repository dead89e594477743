"""What the extender knows of cards' use, by agents that say it and by nodes that are hostile."""

import contextlib
import logging
import pathlib
import re
import ssl
import threading
from collections.abc import Callable

import pytest

from extender.observability import agent_usage
from extender.observability.agent_usage import AgentUsage, NoAgentMetrics, Pace
from tests.extender.observability.agents import BUILD, QUICK, Site, answer, metrics, node
from tests.testbed.host_files import certificates
from tests.waiting import wait_until

_Act = Callable[[ssl.SSLSocket, threading.Event], None]


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    return Site(tmp_path)


def sends(data: bytes) -> _Act:
    return lambda client, _: client.sendall(data)


def drips(client: ssl.SSLSocket, over: threading.Event) -> None:
    """Send an answer byte by byte, each within any time limit of a single read."""
    for byte in answer(metrics(node("bad"), 0.5, 0.5)):
        client.sendall(bytes([byte]))
        if over.wait(0.05):
            return


def waits(_: ssl.SSLSocket, over: threading.Event) -> None:
    over.wait(30)


def floods(piece: bytes) -> _Act:
    """Send without end; each piece is a record of TLS of its own."""

    def act(client: ssl.SSLSocket, over: threading.Event) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not over.is_set():
            client.sendall(piece)

    return act


def wrong(text: bytes) -> _Act:
    return sends(answer(BUILD + text))


HOSTILE: dict[str, tuple[_Act, str]] = {
    "drips": (drips, "no whole answer within 5 s"),
    "says nothing": (waits, "no whole answer within 5 s"),
    "closes": (lambda _, __: None, "closed connection without response"),
    "endless": (floods(bytes(1 << 14)), "more than 2097152 bytes"),
    "endless and small": (floods(b"x"), "too many small pieces"),
    "announces too much": (
        sends(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"),
        "more than 2097152 bytes",
    ),
    "ends early": (sends(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1"), "ends after 1 of 9"),
    "a long head": (sends(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 9000), "is no answer of HTTP"),
    "chunks": (
        sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"),
        "is no answer to HTTP/1.0",
    ),
    "a redirect": (
        sends(answer(b"", b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.2:5679/\r\n")),
        "answers with status 302",
    ),
    "no metrics": (sends(answer(b'{"usage": [[[[]]]]}')), "no metrics of an agent"),
    "more than all": (wrong(metrics(node("bad"), 0.5, 1.5)), "busy for '1.5' of its time"),
    "infinite": (wrong(metrics(node("bad"), "1e999", 0)), "busy for '1e999'"),
    "no number": (wrong(metrics(node("bad"), "1-1", 0)), "busy for '1-1'"),
}


SLOW = {"drips", "says nothing"}  # end with the time for an answer


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.long] if kind in SLOW else []) for kind in HOSTILE],
)
def test_a_hostile_node_costs_only_what_is_known_of_it(site: Site, kind: str) -> None:
    act, words = HOSTILE[kind]
    site.add("bad", "good")
    with site.hostile("bad", act), site.honest("good", metrics(node("good"), 0.25, 1.0)):
        site.round()
    assert (site.busy("bad"), site.busy("good")) == ([], [0.25, 1.0])
    assert site.usage.problem.startswith("nodes=1 first=bad error=")
    assert words in site.usage.problem
    # what it has learnt of us
    (request,) = site.asked
    assert re.fullmatch(
        rb"GET /metrics HTTP/1\.0\r\nHost: 127\.0\.0\.\d:\d+\r\nAccept: \*/\*\r\n\r\n", request
    )


def test_a_node_says_nothing_of_cards_that_are_not_its_own(site: Site) -> None:
    site.add("bad", "good")
    text = metrics(node("good"), 0.5, 0.5) + metrics(node("bad"), 0.75, 0).removeprefix(BUILD)
    with site.hostile("bad", sends(answer(text))), site.honest("good", metrics(node("good"), 0, 0)):
        site.round()
    assert (site.busy("bad"), site.busy("good")) == ([0.75, 0.0], [0.0, 0.0])


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        (lambda site: certificates.authority("x").server("bad", ("127.0.0.2",)), "unable to get"),
        (lambda site: site.servers.server("bad", ("127.0.0.3",)), "IP address mismatch"),
        (lambda site: site.servers.client("bad"), "unsuitable certificate purpose"),
    ],
)
def test_a_node_without_its_certificate_is_not_asked(
    site: Site, certificate: Callable[[Site], certificates.Pair], words: str
) -> None:
    site.add("bad")
    with site.hostile("bad", sends(answer(metrics(node("bad"), 1, 1))), certificate(site)):
        site.round()
    assert site.busy("bad") == []
    assert words in site.usage.problem
    assert site.asked == []  # not even that we ask for metrics


def test_an_agent_refuses_the_certificate_of_another_authority(site: Site) -> None:
    site.add("gpu1")
    with site.honest("gpu1", metrics(node("gpu1"), 1, 1)):
        site.readers = certificates.authority("another")
        site.round()
    assert site.busy("gpu1") == []
    assert "nodes=1 first=gpu1" in site.usage.problem


@pytest.mark.long
def test_many_nodes_that_drip_keep_no_other_waiting(site: Site) -> None:
    names = [f"bad{number}" for number in range(12)]
    site.add(*names, "good")
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(site.hostile(name, drips))
        stack.enter_context(site.honest("good", metrics(node("good"), 0.5, 0.5)))
        site.round()
        assert site.busy("good") == [0.5, 0.5]
        assert site.usage.problem.startswith("nodes=12 ")
        # Their turn comes less often from now on.
        later = [site.usage.begin_round([*names, "good"]) for _ in range(20)]
    assert all("good" in turn for turn in later)
    assert [names[0] in turn for turn in later[:2]] == [True, True]


def test_no_lock_is_held_while_a_node_is_asked(site: Site) -> None:
    free: list[bool] = []

    def looks(client: ssl.SSLSocket, _: threading.Event) -> None:
        free.append(site.cache.lock.acquire(blocking=False))
        client.sendall(answer(metrics(node("gpu1"), 1, 1)))

    site.add("gpu1")
    with site.hostile("gpu1", looks):
        site.round()
    assert (free, site.busy("gpu1")) == ([True], [1.0, 1.0])


def test_nodes_without_an_address_or_cards_are_not_asked(site: Site) -> None:
    site.place("gpu1", "")
    assert not AgentUsage(site.cache, site.usage, site.source, pace=QUICK).round(None)  # type: ignore[arg-type]
    assert site.usage.problem == ""


def test_a_silent_agent_and_its_return_are_logged_once(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, agent_usage.__name__)
    site.add("gpu1")
    asking = AgentUsage(site.cache, site.usage, site.source, pace=Pace(every_seconds=0.05))
    asking.start()
    try:
        wait_until(lambda: "nodes=1 first=gpu1" in caplog.text)
        with site.honest("gpu1", metrics(node("gpu1"), 0.5, 0.5)):
            wait_until(lambda: site.busy("gpu1") == [0.5, 0.5])
            wait_until(lambda: "every agent says how busy its cards are" in caplog.text)
            assert len(caplog.records) == 2
    finally:
        asking.stop()


@pytest.mark.long
def test_an_extender_stops_while_a_node_drips(site: Site) -> None:
    site.add("bad")
    asking = AgentUsage(site.cache, site.usage, site.source, pace=QUICK)
    with site.hostile("bad", drips):
        asking.start()
        wait_until(lambda: bool(site.asked))
        asking.stop()
    assert site.busy("bad") == []


def test_more_cards_than_a_node_can_have_are_passed_over() -> None:
    line = b'gpustack_card_busy_ratio{minor="0",uuid="GPU-%d"} 0.5\n'
    text = BUILD + b"".join(line % number for number in range(1000))
    found = agent_usage.read(text, (f"GPU-{number}" for number in range(1000)))
    assert len(found) == 256


def test_no_text_of_any_form_is_read_for_long() -> None:
    with pytest.raises(NoAgentMetrics):
        agent_usage.read(b"gpustack_card_busy_ratio{" * 80_000, ())
    assert agent_usage.read(BUILD + b'gpustack_card_busy_ratio{minor="' * 60_000, ["x"]) == {}
