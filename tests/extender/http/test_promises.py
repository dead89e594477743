"""Promises of ``extender.http.interface``, tried with the server that ships and with another one.

Werkzeug's own server implements the interface in forty lines; ``BROKEN`` lists the promises that it
breaks, and why. A new promise needs a check here; a new server is tried with this file.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

from extender.http.interface import Promise
from extender.http.loop import CONNECTIONS
from extender.http.request_buffer import HEAD_BYTES
from tests.extender import client, process
from tests.extender.client import WAIT_SECONDS, Answer, eventually
from tests.extender.http import waiting
from tests.extender.http.promise_site import Site
from tests.extender.mini_cluster import PREDICATES, node, pod
from tests.fakes.kube_api import FakeKubeApi

pytestmark = pytest.mark.long

THREADS = 2
MANY = 24
DEAF = 8
LIMIT_BYTES = 8 << 20
SHORT_SECONDS = 2.0
LONG_SECONDS = 60.0
"""Longer than any test waits: an earlier answer came without this wait."""

IMPATIENT_SECONDS = 3.0
HOLD_SECONDS = 1.0
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLUSTER = GET.replace(b"/healthz", b"/v1/cluster")
CALL = (
    f"POST {PREDICATES} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
    "Content-Length: 2\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n{}"
).encode()


Check = Callable[[Site], None]
CHECKS: dict[Promise, tuple[Check, float]] = {}


def keeps(promise: Promise, request_seconds: float = LONG_SECONDS) -> Callable[[Check], Check]:
    """Say that a function tries a promise, of a server with these `request_seconds`."""

    def note(check: Check) -> Check:
        CHECKS[promise] = check, request_seconds
        return check

    return note


def read_one(connection: socket.socket) -> Answer:
    response = http.client.HTTPResponse(connection)
    response.begin()
    raw = response.read()
    is_json = response.getheader("Content-Type") == "application/json"
    return Answer(status=response.status, body=json.loads(raw) if is_json else None, raw=raw)


@keeps(Promise.CALLS)
def a_call_is_answered_alike_whatever_its_head(site: Site) -> None:
    with site.connect() as connection:
        connection.sendall(CALL)
        by_go = read_one(connection)
    assert by_go == site.decide()
    assert by_go.status == 400
    assert "Pod" in by_go.body["Error"]


@keeps(Promise.HOLD)
def a_second_refusal_of_a_bind_is_held_back_whatever_its_head(site: Site) -> None:
    for head in (CALL, CALL.replace(b"Accept-", b"X: y\r\nAccept-")):
        names = dict.fromkeys(("PodName", "PodNamespace", "Node"), "gone")
        body = json.dumps({**names, "PodUID": str(hash(head))}).encode()
        asking = head.replace(b"predicates", b"bind").replace(b": 2\r", b": %d\r" % len(body))
        began = time.monotonic()
        for _ in range(2):
            with site.connect() as connection:
                connection.sendall(asking[:-2] + body)
                assert read_one(connection).body["Error"]
        assert time.monotonic() - began >= HOLD_SECONDS


@keeps(Promise.CALLER)
def routes_know_the_clients_certificate(site: Site) -> None:
    assert site.decide().status == 400
    answer = site.decide(site.context("prometheus"))
    assert answer.status == 403
    assert "'prometheus'" in answer.text


@keeps(Promise.PLAIN_READS)
def this_host_reads_without_tls(site: Site) -> None:
    assert site.running.call("GET", "/healthz").raw == b"ok\n"


@keeps(Promise.SILENT_HANDSHAKE, SHORT_SECONDS)
def a_client_that_never_shakes_hands_delays_no_other(site: Site) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(site.running.connect()) for _ in range(MANY)]
        silent[0].sendall(b"\x16\x03\x01")
        assert site.decide().status == 400
        assert [each.recv(1) for each in silent] == [b""] * MANY


@keeps(Promise.SLOW_REQUEST, SHORT_SECONDS)
def a_slow_request_holds_no_thread_and_ends(site: Site) -> None:
    with contextlib.ExitStack() as stack:
        slow = []
        for _ in range(MANY):
            slow.append(stack.enter_context(site.connect()))
            slow[-1].sendall(CALL[:-1])
        assert site.decide().status == 400
        assert site.status("Threads") < MANY
        assert {read_one(each).status for each in slow} == {408}


@keeps(Promise.UNREAD_ANSWER)
def an_answer_that_is_not_read_holds_no_thread(site: Site) -> None:
    eventually(lambda: site.get("/readyz").status == 200)
    names = [f"node-{index:0240}" for index in range(LIMIT_BYTES // 280)]
    body = json.dumps({"Pod": site.api.create("pods", pod("cpu", 0)), "NodeNames": names}).encode()
    asking = CALL.replace(b"Length: 2", b"Length: %d" % len(body))[:-2] + body
    before = site.status("Threads")
    with contextlib.ExitStack() as stack:
        for _ in range(DEAF):
            deaf = stack.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", site.running.port))
            deaf.settimeout(client.WAIT_SECONDS)
            secured = site.scheduler.wrap_socket(deaf, server_hostname="127.0.0.1")
            stack.enter_context(secured).sendall(asking)
            # the next large request is kept once this one is answered
            assert wait([secured], client.WAIT_SECONDS)
        assert site.decide().status == 400
        assert site.get("/healthz").status == 200
        assert site.status("Threads") < before + DEAF


@keeps(Promise.HALF_BODY)
def a_half_body_of_another_client_is_refused_at_the_head(site: Site) -> None:
    for head in (CALL, CALL.replace(b"POST /", b"POST http://localhost/")):
        with site.connect(site.context("prometheus")) as connection:
            connection.sendall(head.replace(b"Content-Length: 2", b"Content-Length: 1000"))
            answer = read_one(connection)
        assert answer.status == 403
        assert "tls.client_name" in answer.body["Error"]


@keeps(Promise.BODY_LIMIT)
def a_body_over_the_limit_is_413_and_is_not_kept(site: Site) -> None:
    answer = site.decide(body=b"x" * 100_000_000)
    assert answer.status == 413
    assert f"request_limit_bytes allows {LIMIT_BYTES}" in answer.body["Error"]
    assert site.status("VmHWM") < 200_000  # KiB


@keeps(Promise.HEAD_LIMIT)
def a_head_without_an_end_is_431(site: Site) -> None:
    with site.connect() as connection:
        connection.sendall(GET[:-2] + b"X: " + b"x" * HEAD_BYTES)
        assert connection.recv(12) == b"HTTP/1.1 431"


@keeps(Promise.ONE_AT_A_TIME)
def requests_of_a_connection_are_answered_in_order(site: Site) -> None:
    with site.connect() as connection:
        connection.sendall(CLUSTER + GET + CLUSTER)
        assert wait([site.inside], WAIT_SECONDS)
        assert site.get("/healthz").raw == b"ok\n"
        assert os.read(site.inside, 9) == b"x"
        os.write(site.go, b"xx")
        answers = [read_one(connection) for _ in range(3)]
    assert [each.body is None for each in answers] == [False, True, False]


@keeps(Promise.PLACES)
def the_one_that_has_waited_longest_makes_room(site: Site) -> None:
    with contextlib.ExitStack() as stack:
        slow = []
        for _ in range(CONNECTIONS + 9):
            slow.append(stack.enter_context(site.connect()))
            slow[-1].sendall(GET[:-2])
        assert site.decide().status == 400
        assert read_one(slow[0]).status == 503
        slow[-1].sendall(b"\r\n")
        assert read_one(slow[-1]).raw == b"ok\n"


@keeps(Promise.RELOAD)
def a_renewed_certificate_counts_for_the_next_connection(site: Site) -> None:
    with site.connect() as before:
        site.renew()
        with site.connect() as after:
            assert before.getpeercert() != after.getpeercert()
        before.sendall(GET)
        assert read_one(before).raw == b"ok\n"


@keeps(Promise.GRACEFUL_END)
def what_has_begun_is_finished(site: Site) -> None:
    def refused() -> bool:
        with contextlib.suppress(OSError):
            site.running.connect().close()
            return False
        return True

    with site.connect() as connection:
        connection.sendall(CLUSTER)
        assert wait([site.inside], WAIT_SECONDS)
        site.running.signal(signal.SIGTERM)
        eventually(refused)
        os.write(site.go, b"x")
        assert read_one(connection).status == 200
    assert site.running.ended() == 0


BROKEN = {
    Promise.HOLD: "it sends every answer at once",
    Promise.PLAIN_READS: "a port speaks TLS or doesn't",
    Promise.SILENT_HANDSHAKE: "hands are shaken in the loop that accepts",
    Promise.SLOW_REQUEST: "a thread a connection, without a limit of time",
    Promise.UNREAD_ANSWER: "a thread a connection",
    Promise.ONE_AT_A_TIME: "a connection has one request: HTTP/1.0",
    Promise.PLACES: "as many connections as there are threads",
    Promise.RELOAD: "one context for the life of the process",
    Promise.GRACEFUL_END: "its threads end with the process",
}
FAILURES = (AssertionError, OSError, http.client.HTTPException)


@contextlib.contextmanager
def served(folder: Path, module: str, request_seconds: float) -> Iterator[Site]:
    site = Site(folder)
    values: dict[str, Any] = {"threads": THREADS, "request_limit_bytes": LIMIT_BYTES}
    with FakeKubeApi() as site.api, waiting.pipes(folder) as (site.inside, site.go):
        site.api.create("nodes", node("gpu1"))
        values |= {"tls": site.tls, "request_seconds": request_seconds}
        with process.process(site.api, folder, module=module, **values) as site.running:
            yield site


def test_every_promise_is_tried() -> None:
    assert set(CHECKS) == set(Promise)


@pytest.mark.parametrize("promise", Promise, ids=lambda promise: promise.name)
def test_the_server_that_ships_keeps_its_promises(tmp_path: Path, promise: Promise) -> None:
    check, request_seconds = CHECKS[promise]
    with served(tmp_path, "tests.extender.http.waiting", request_seconds) as site:
        check(site)


@pytest.mark.parametrize("promise", Promise, ids=lambda promise: promise.name)
def test_werkzeugs_server_keeps_what_is_not_listed_as_broken(
    tmp_path: Path, promise: Promise, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, request_seconds = CHECKS[promise]
    with served(tmp_path, "tests.extender.werkzeug_server", request_seconds) as site:
        if promise not in BROKEN:
            check(site)
            return
        for module in (client, process):
            monkeypatch.setattr(module, "WAIT_SECONDS", IMPATIENT_SECONDS)
        with pytest.raises(FAILURES):
            check(site)
