"""The scheduler's calls never wait behind other clients, however many or slow those are."""

import contextlib
import json
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

from tests.extender.client import WAIT_SECONDS, call, eventually
from tests.extender.http import waiting
from tests.extender.http.test_slow import post, read_all, read_one
from tests.extender.mini_cluster import PREDICATES, node, pod
from tests.extender.process import Process, process
from tests.fakes.kube_api import FakeKubeApi
from tests.testbed.host_files import certificates

pytestmark = pytest.mark.long

MANY = 40
PLACES = 512
KERNEL_BYTES = 10 << 20  # more than the kernel keeps for a connection whose client doesn't read
CLOSE_SECONDS = 2  # wait of gunicorn's own loop for a client that doesn't close
GET = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLUSTER = GET.replace(b"/version", b"/v1/cluster")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Process]:
    """A process with one thread for decisions."""
    with FakeKubeApi() as api:
        api.create("nodes", node("gpu1"))
        with process(api, tmp_path, threads=1) as running:
            yield running
            assert "Traceback" not in running.said


def secured(folder: Path) -> tuple[dict[str, Any], ssl.SSLContext]:
    """Return the extender's settings and the scheduler's context."""
    authority = certificates.authority("authority")
    root = authority.pair.store(folder, "authority")
    server = authority.server("server", ("127.0.0.1",)).store(folder, "server")
    scheduler = authority.client("system:kube-scheduler").store(folder, "client")
    context = ssl.create_default_context(cafile=root.certificate)
    context.load_cert_chain(scheduler.certificate, scheduler.key)
    files = {"certificate": server.certificate, "key": server.key, "client_ca": root.certificate}
    return {"tls": {name: str(file) for name, file in files.items()}}, context


@pytest.mark.parametrize("tls", [True, False])
def test_a_verb_is_answered_while_all_others_wait(tmp_path: Path, tls: bool) -> None:
    """Forty clients send ahead, and the test holds the answers of those in turn."""
    values, context = secured(tmp_path) if tls else ({}, None)
    with (
        FakeKubeApi() as api,
        waiting.pipes(tmp_path) as (inside, go),
        process(api, tmp_path, module="tests.extender.http.waiting", threads=2, **values) as served,
        contextlib.ExitStack() as stack,
    ):
        others = [stack.enter_context(served.connect()) for _ in range(MANY)]
        stack.callback(os.write, go, b"x" * MANY * 3)  # after any failure, no thread stays behind
        for each in others:
            each.sendall(CLUSTER * 3)
        for _ in range(2):  # as many threads as the others have
            assert wait([inside], WAIT_SECONDS)
            os.read(inside, 1)
        for _ in range(3):
            answer = call(served.port, "POST", PREDICATES, b"{}", context=context)
            assert (answer.status, "Pod" in answer.body["Error"]) == (400, True)
        os.write(go, b"x" * MANY * 3)
        for each in others:
            with each.makefile("rb") as answers:
                assert [read_one(answers) for _ in range(3)] == [200] * 3


def hello() -> bytes:
    """Return the first bytes of a client's handshake."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(into, out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def test_a_verb_is_answered_before_most_handshakes(tmp_path: Path) -> None:
    """The process stands still until all handshakes have begun and the scheduler has asked."""
    values, context = secured(tmp_path)
    with (
        FakeKubeApi() as api,
        process(api, tmp_path, module="tests.extender.tls.handshakes", **values) as served,
        contextlib.ExitStack() as stack,
    ):
        plain = stack.enter_context(served.connect())
        scheduler = stack.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
        answers = stack.enter_context(scheduler.makefile("rb"))
        scheduler.sendall(GET)
        assert read_one(answers) == 200
        others = [stack.enter_context(served.connect()) for _ in range(MANY * 2)]
        assert served.call("GET", "/healthz").status == 200  # all earlier connections are accepted
        os.kill(served.worker, signal.SIGSTOP)
        try:
            for each in others:
                each.sendall(hello())
            scheduler.sendall(post(b"{}"))
        finally:
            os.kill(served.worker, signal.SIGCONT)
        assert read_one(answers) == 400
        said = served.said.partition("to be decided after ")[2]
        assert int(said.split()[0]) < MANY


def test_a_client_that_sends_ahead_gets_one_answer_a_turn(tmp_path: Path) -> None:
    """The only thread has one request of this client; another client's comes before its second."""
    with FakeKubeApi() as api:
        api.create("nodes", node("gpu1"))
        # a held request gives up after the test, not within it
        with process(api, tmp_path, threads=1, decision_seconds=60) as served:
            eventually(lambda: served.call("GET", "/readyz").status == 200)
            held = [api.faults.hold("PATCH", f"/pods/{name}/status$") for name in ("a", "b")]
            with served.connect() as ahead, served.connect() as patient:
                ahead.sendall(b"".join(asking(api, name) for name in ("a", "b")))
                assert held[0].reached.wait(WAIT_SECONDS)
                patient.sendall(post(b"{}"))
                # Other threads answer; the loop has read all earlier bytes.
                assert served.call("GET", "/healthz").status == 200
                held[0].release()
                with patient.makefile("rb") as answers:
                    assert read_one(answers) == 400
                held[1].release()
                with ahead.makefile("rb") as answers:
                    assert [read_one(answers), read_one(answers)] == [200, 200]


def asking(api: FakeKubeApi, name: str) -> bytes:
    """Create a pod; returns the request that reserves a share for it."""
    created = api.create("pods", pod(name, 10, 8))
    return post(json.dumps({"Pod": created, "NodeNames": ["gpu1"]}).encode())


def test_clients_that_do_not_close_delay_no_others(served: Process) -> None:
    """Each client reads that the connection ends, and keeps its own side open."""
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with contextlib.ExitStack() as stack:
        staying = [stack.enter_context(served.connect()) for _ in range(MANY)]
        for each in staying:
            each.sendall(last)
        assert CLOSE_SECONDS * MANY > WAIT_SECONDS
        for each in staying:
            assert read_all(each).startswith(b"HTTP/1.1 200")
        assert served.call("GET", "/healthz").status == 200


def deaf(served: Process, stack: contextlib.ExitStack, sent: bytes) -> None:
    """Send these bytes, wait for the answer, and read nothing of it."""
    client = stack.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", served.port))
    client.settimeout(WAIT_SECONDS)
    client.sendall(sent)
    assert client.recv(1, socket.MSG_PEEK)


def long(api: FakeKubeApi) -> bytes:
    """Return a call whose answer is as long as itself: the names of 15 MB of nodes."""
    names = [f"node-{index:0240}" for index in range((15 << 20) // 250)]
    return post(json.dumps({"Pod": api.create("pods", pod("cpu", 0)), "NodeNames": names}).encode())


@pytest.mark.parametrize("deciding", [False, True])
def test_clients_that_read_no_answer_delay_no_others(tmp_path: Path, deciding: bool) -> None:
    """If an unread answer held its thread, a minute would pass for each of them."""
    with FakeKubeApi() as api, contextlib.ExitStack() as stack:
        for index in range(300):
            api.create("nodes", node(f"gpu{index}"))
        asked = long(api) if deciding else CLUSTER * 1000
        with process(api, tmp_path, threads=1, request_seconds=60) as served:
            eventually(lambda: served.call("GET", "/readyz").status == 200)
            for _ in range(4):
                deaf(served, stack, asked)
            # each time one more page for each of them, until the kernel takes no more
            page_bytes = len(served.call("GET", "/v1/cluster").raw)
            for _ in range(3 if deciding else KERNEL_BYTES // page_bytes):
                assert served.call("GET", "/healthz").raw == b"ok\n"
            assert served.call("POST", PREDICATES, b"{}").status == 400


def test_unread_answers_are_bounded_together(tmp_path: Path) -> None:
    with FakeKubeApi() as api, contextlib.ExitStack() as stack:
        asked = long(api)
        with process(api, tmp_path, request_seconds=60) as served:
            eventually(lambda: served.call("GET", "/readyz").status == 200)
            for _ in range(5):
                deaf(served, stack, asked)
            served.says("cause=memory: too many answers wait to be read")
            assert served.call("GET", "/healthz").status == 200


def test_an_answer_that_is_read_late_is_whole(tmp_path: Path) -> None:
    with FakeKubeApi() as api:
        asked = long(api)
        with process(api, tmp_path) as served:
            eventually(lambda: served.call("GET", "/readyz").status == 200)
            with served.connect() as connection, connection.makefile("rb") as answers:
                connection.sendall(asked)
                assert wait([connection], WAIT_SECONDS)
                assert served.call("GET", "/healthz").status == 200
                assert read_one(answers) == 200
                connection.sendall(post(b"{}"))
                assert read_one(answers) == 400


def test_a_connection_closed_for_room_in_a_request_ends_nothing_else(served: Process) -> None:
    """The process stands still until a new connection and the rest of the requests have come."""
    before = served.worker
    with contextlib.ExitStack() as stack:
        half = [stack.enter_context(served.connect()) for _ in range(PLACES - 1)]
        for each in half:
            each.sendall(GET[:-2])
        assert served.call("GET", "/healthz").status == 200
        taken = stack.enter_context(served.connect())
        taken.sendall(GET)
        with taken.makefile("rb") as answers:
            assert read_one(answers) == 200
        os.kill(served.worker, signal.SIGSTOP)
        try:
            more = stack.enter_context(socket.socket())
            more.connect(("127.0.0.1", served.port))
            for each in half:
                with contextlib.suppress(ConnectionError):
                    each.sendall(b"\r\n")
        finally:
            os.kill(served.worker, signal.SIGCONT)
        served.says("too many connections at the same time")
        assert served.call("GET", "/healthz").status == 200
    assert served.worker == before


def test_a_connection_that_asks_for_decisions_keeps_its_place(served: Process) -> None:
    """This connection has waited longest when the places run out."""
    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(served.connect())
        answers = stack.enter_context(scheduler.makefile("rb"))
        scheduler.sendall(post(b"{}"))
        assert read_one(answers) == 400
        for _ in range(PLACES + 20):
            each = stack.enter_context(served.connect())
            each.sendall(GET)
            with each.makefile("rb") as other:
                assert read_one(other) == 200
        scheduler.sendall(post(b"{}"))
        assert read_one(answers) == 400


def test_a_connection_with_the_schedulers_certificate_keeps_its_place(tmp_path: Path) -> None:
    """This connection has not asked for a decision yet, and has waited longest."""
    values, context = secured(tmp_path)
    with (
        FakeKubeApi() as api,
        process(api, tmp_path, **values) as served,
        contextlib.ExitStack() as stack,
    ):
        plain = stack.enter_context(served.connect())
        scheduler = stack.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
        answers = stack.enter_context(scheduler.makefile("rb"))
        scheduler.sendall(GET)
        assert read_one(answers) == 200
        for _ in range(PLACES + 20):
            each = stack.enter_context(served.connect())
            each.sendall(GET)
            with each.makefile("rb") as other:
                assert read_one(other) == 200
        scheduler.sendall(post(b"{}"))
        assert read_one(answers) == 400
