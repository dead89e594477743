"""The timer's program asks for the next token with the present one, and keeps that one else."""

import importlib
import json
import os
import pathlib
import stat
import sys
import threading
from typing import Any, Final

import pytest

from tests.ansible.credentials import host_tokens
from tests.ansible.credentials.host_tokens import (
    ACCOUNT,
    GROUP,
    HOUR,
    Answer,
    Api,
    HostTokens,
    given,
    token,
)

pytestmark = pytest.mark.skipif(
    os.getuid() != 0, reason="gives files to root, as on a host: run it as root"
)

CURE: Final = "site.yml --tags gpustack_extender gives this host other tokens"
DUE: Final = 47  # hours that are left: more than a third of 72 is used


def refused(status: int, message: str) -> tuple[int, bytes]:
    return status, json.dumps({"kind": "Status", "message": message}).encode()


def test_a_token_that_is_due_is_renewed_with_itself(host: HostTokens, api: Api) -> None:
    before, after = token(DUE), token(72)
    host.file.write_text(before)
    api.answer = lambda: given(after)
    done = host.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert host.file.read_text() == after
    found = host.file.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o640)
    ((path, authorization, body),) = api.asked
    assert path == f"/api/v1/namespaces/kube-system/serviceaccounts/{ACCOUNT}/token"
    assert authorization == f"Bearer {before}"
    bound = {
        "kind": "Secret", "apiVersion": "v1", "name": f"{ACCOUNT}.cp1-01234567",
        "uid": "of-the-secret",
    }  # fmt: skip
    assert body["spec"] == {"expirationSeconds": 72 * HOUR, "boundObjectRef": bound}
    assert host.run().returncode == 0
    assert len(api.asked) == 1, "one that is new is asked for again"


@pytest.mark.parametrize(
    ("left", "whole", "due"),
    [
        (49, 72, False),
        (47, 72, True),
        (0.7, 1, False),  # the server's own limit is an hour
        (0.6, 1, True),
        (95, 96, True),  # longer than the site wants by now
        (75, 72, True),  # by this host's clock it begins in three hours
        (-1, 72, True),  # by a clock that may be wrong: the server says whether it has ended
    ],
)
def test_a_token_is_due_when_a_third_of_its_own_time_is_used(
    host: HostTokens, api: Api, left: float, whole: float, due: bool
) -> None:
    host.file.write_text(token(left, whole))
    api.answer = lambda: given(token(80))  # after it, by the server's clock
    assert host.run().returncode == 0
    assert bool(api.asked) is due


def test_a_token_that_the_server_shortens_is_used(host: HostTokens, api: Api) -> None:
    shorter = token(1, 1)
    host.file.write_text(token(DUE))
    api.answer = lambda: given(shorter)
    assert host.run().returncode == 0
    assert host.file.read_text() == shorter
    assert host.run("--check").returncode == 0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda: refused(401, "Unauthorized"), "refuses the token, which has ended or was revoked"),
        (lambda: refused(403, "it is\nforbidden"), "answers with status 403: it is forbidden"),
        (lambda: refused(503, "starting"), "answers with status 503: starting"),
        (lambda: (200, b"{}"), "answers with status 200"),
        (lambda: (201, b"x" * (1 << 17)), "answers with more than 65536 bytes"),
        (lambda: (201, b"no JSON"), "answers without a token"),
        (lambda: (201, b"[" * 60_000), "answers without a token"),
        (lambda: (201, b'{"status": []}'), "answers without a token"),
        (lambda: given(7), "answers without a token"),
        (lambda: given("a\nb"), "answers without a token"),
        (lambda: given("e30.e30.sum"), "is no token of a service account"),
        (
            lambda: given(token(72, serviceaccount={"name": "another"})),
            "the server's answer is another account's, or older than the token",
        ),
        (lambda: given(token(1, 72)), "another account's, or older than the token"),
    ],
)
def test_a_bad_answer_leaves_the_token_and_fails_the_unit(
    host: HostTokens, api: Api, answer: Answer, said: str
) -> None:
    before = token(DUE)
    host.file.write_text(before)
    api.answer = answer
    done = host.run()
    assert done.returncode == 1
    assert said in done.stderr
    assert CURE in done.stderr
    assert before.split(".")[1] not in done.stderr, "the journal shows a token"
    assert host.file.read_text() == before
    assert os.listdir(host.folder) == [ACCOUNT]


def test_a_server_that_is_away_leaves_the_token(tmp_path: pathlib.Path) -> None:
    before = token(DUE)
    host = HostTokens(folder=tmp_path / "tokens", server="http://127.0.0.1:1")
    host.folder.mkdir()
    host.file.write_text(before)
    done = host.run()
    assert done.returncode == 1
    assert "can't be renewed, and stays: 127.0.0.1: " in done.stderr
    assert host.file.read_text() == before


@pytest.mark.parametrize("content", [None, "", "no token", token(50, secret=None)])
def test_what_is_no_bound_token_is_named_with_the_cure(
    host: HostTokens, api: Api, content: str | None
) -> None:
    if content is not None:
        host.file.write_text(content)
    for arguments in ((), ("--check",)):
        done = host.run(*arguments)
        assert done.returncode == 1
        assert str(host.file) in done.stderr
        assert CURE in done.stderr
    assert api.asked == []


@pytest.mark.parametrize(
    "content",
    [
        f"{token(DUE)}\n{token(DUE)}",
        f"\x7f{token(DUE)}",
        f"e30.{token(DUE).split('.')[1]}.a b",
        f"{token(DUE)}\u00e9",
        token(DUE, namespace="kube-system\u00e9"),
        token(DUE, 1e12),
    ],
)
def test_a_damaged_token_is_named_and_not_shown(host: HostTokens, api: Api, content: str) -> None:
    """http.client shows a header that it refuses, and with it the token."""
    host.file.write_text(content)
    for arguments in ((), ("--check",)):
        done = host.run(*arguments)
        assert done.returncode == 1
        assert f"{host.file}: is no token of a service account" in done.stderr
        assert content.split(".")[1] not in done.stderr
        assert "Traceback" not in done.stderr
    assert api.asked == []


def test_what_a_run_left_that_was_ended_goes_with_the_next(host: HostTokens, api: Api) -> None:
    host.file.write_text(token(DUE))
    (host.folder / f".{ACCOUNT}.abcd1234").write_text(token(DUE))
    assert host.run().returncode == 0
    assert len(api.asked) == 1
    assert os.listdir(host.folder) == [ACCOUNT]


@pytest.mark.parametrize(
    ("left", "said"), [(25, ""), (23, ": ends at 20"), (-1, ": has ended at 20")]
)
def test_a_look_names_a_token_near_its_end(
    host: HostTokens, api: Api, left: float, said: str
) -> None:
    host.file.write_text(token(left))
    done = host.run("--check")
    assert done.returncode == bool(said)
    assert said in done.stderr
    assert api.asked == []


class Died(BaseException):
    """The process ends at once, as by SIGKILL."""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the program's modules in this process, by name."""
    monkeypatch.setattr(sys, "path", [str(host_tokens.PROGRAM), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = ("renewal", "token_request", "claims")
    found = {name: importlib.import_module(name) for name in names}
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    return found


@pytest.mark.parametrize("step", ["fchown", "fchmod", "fsync", "rename"])
def test_a_renewal_that_dies_leaves_a_whole_token(
    host: HostTokens, api: Api, program: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = token(DUE)
    host.file.write_text(before)

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(os, step, die)
        with pytest.raises(Died):
            program["renewal"].Tokens(host.settings).renew()
    assert host.file.read_text() == before
    assert host.run().returncode == 0
    assert len(api.asked) == 2
    assert os.listdir(host.folder) == [ACCOUNT]


def test_a_token_that_was_replaced_meanwhile_stays(host: HostTokens, api: Api) -> None:
    replaced = token(72, secret={"name": f"{ACCOUNT}.cp1-01234567", "uid": "newer"})
    host.file.write_text(token(DUE))

    def replace() -> tuple[int, bytes]:
        host.file.write_text(replaced)  # as rotate.yml does
        return given(token(72))

    api.answer = replace
    assert host.run().returncode == 0
    assert host.file.read_text() == replaced


def test_a_server_that_never_ends_its_answer_is_left(
    host: HostTokens, api: Api, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = threading.Event()
    before = token(DUE)
    host.file.write_text(before)

    def wait() -> tuple[int, bytes]:
        silent.wait()
        return given(token(72))

    api.answer = wait
    monkeypatch.setattr(program["token_request"], "_SECONDS", 1)
    (problem,) = program["renewal"].Tokens(host.settings).renew()
    silent.set()
    assert "no answer in 1 s" in problem
    assert host.file.read_text() == before


def test_a_group_that_is_not_there_is_named(host: HostTokens, program: Any) -> None:
    host.file.write_text(token(DUE))
    settings = {**host.settings, "groups": {ACCOUNT: f"{GROUP}-none"}}
    (problem,) = program["renewal"].Tokens(settings).renew()
    assert f"{GROUP}-none" in problem
    assert os.listdir(host.folder) == [ACCOUNT]
