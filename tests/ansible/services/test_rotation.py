"""Authority, certificates and keys change while scheduler and extender go on, and after a fault."""

import datetime
import importlib
import os
import pathlib
import ssl
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from tests.ansible.services.test_certificates import (
    EVERYTHING,
    FILES,
    LEAVES,
    PROGRAM,
    WANTED,
    content,
    folder,
    make,
    pytestmark,
    run,
    shaken,
)

__all__ = ["folder", "pytestmark"]

NAME = "system:kube-scheduler"
ANEW: dict[str, Any] = {"renew_days": 100}  # nothing lasts longer: each run of the timer renews all


class Scheduler:
    """As kube-scheduler: authorities are read at its start, its certificate for a connection."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.restart()

    def restart(self) -> None:
        self.authorities = (self.folder / "scheduler/ca.crt").read_text()

    def meets(self) -> bool:
        own = self.folder / "scheduler"
        try:
            client = ssl.create_default_context(cadata=self.authorities)
            client.load_cert_chain(own / "client.crt", own / "client.key")
            return shaken(extender(self.folder), client, "localhost") == NAME
        except ssl.SSLError:
            return False


def extender(folder: pathlib.Path) -> ssl.SSLContext:
    """As the extender: all is read for a connection."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    server.load_cert_chain(folder / "extender.crt", folder / "extender.key")
    server.verify_mode = ssl.CERT_REQUIRED
    return server


def rotate(scheduler: Scheduler, step: Callable[[str], object]) -> Iterator[str]:
    """Do what rotate.yml does; yields after each part."""
    for each in ("trust", "finish"):
        step(each)
        yield each
        scheduler.restart()
        yield f"restart after {each}"


def test_a_renewal_changes_one_file_and_no_key(folder: pathlib.Path) -> None:
    make(folder)
    scheduler, before = Scheduler(folder), content(folder)
    assert make(folder, "renew", **ANEW) == LEAVES
    assert {name for name, text in content(folder).items() if text != before[name]} == set(LEAVES)
    assert scheduler.meets()


@pytest.mark.long
def test_the_authority_changes_while_both_sides_go_on(folder: pathlib.Path) -> None:
    make(folder)
    scheduler, before = Scheduler(folder), content(folder)
    parts = []
    for part in rotate(scheduler, lambda step: make(folder, step)):
        parts.append(part)
        assert scheduler.meets(), part
        make(folder, "renew", **ANEW)  # the timer, at any time
        assert scheduler.meets(), part
    assert len(parts) == 4
    after = content(folder)
    assert [name for name in FILES if after[name] == before[name]] == []
    assert after["ca.crt"].count(b"BEGIN") == 1
    assert not (folder / "ca-next.key").exists()
    # what was stolen before opens nothing
    for name in ("client.crt", "client.key"):
        (folder / "scheduler" / name).write_bytes(before[f"scheduler/{name}"])
    assert not scheduler.meets()


@pytest.mark.long
def test_a_look_at_a_change_changes_nothing(folder: pathlib.Path) -> None:
    make(folder)
    before = content(folder)
    assert make(folder, "trust", check=True) == ["ca.crt", "scheduler/ca.crt"]
    assert make(folder, "finish", check=True) == []
    assert content(folder) == before
    make(folder, "trust")
    assert make(folder, "trust") == []
    before = content(folder)
    assert make(folder, "finish", check=True) == ["ca.crt", "scheduler/ca.crt"]
    assert content(folder) == before


class Died(BaseException):
    """The process ends at once, as by SIGKILL."""


@pytest.fixture
def steps(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    """Return what runs a step in this process."""
    monkeypatch.setattr(sys, "path", [str(PROGRAM), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    pki: Any = importlib.import_module("pki")
    for name in ("pki", "openssl"):
        monkeypatch.delitem(sys.modules, name)
    settings = {**WANTED, "folder": str(folder)}

    def step(name: str) -> object:
        return getattr(pki.Pki(settings, check=False), name)()

    return step


@pytest.mark.nightly
@pytest.mark.long
def test_a_change_that_died_at_any_file_ends_clean_when_done_again(
    folder: pathlib.Path, steps: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, dying = os.replace, 0
    replaced: list[str] = []

    def die(source: str, destination: str) -> None:
        replace(source, destination)
        replaced.append(str(pathlib.Path(destination).relative_to(folder)))
        if len(replaced) == dying:
            raise Died

    while True:
        dying += 1
        make(folder)
        scheduler = Scheduler(folder)
        replaced.clear()
        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", die)
            try:
                list(rotate(scheduler, steps))
                break
            except Died:
                pass
        # Only between a new key and its certificate a scheduler finds a pair that is none.
        key = replaced[-1] in {"extender.key", "scheduler/client.key"}
        assert scheduler.meets() is not key, replaced
        make(folder, "renew")  # the timer
        assert scheduler.meets(), replaced
        assert [part for part in rotate(scheduler, steps) if not scheduler.meets()] == []
        assert (folder / "ca.crt").read_text().count("BEGIN") == 1
        assert not (folder / "ca-next.key").exists()
        assert make(folder) == []
    assert dying == 13, replaced  # each of the twelve was the last one


def ended(folder: pathlib.Path, name: str, issuer: str) -> None:
    """Put a certificate in the place of another, which ended a day ago."""
    path = folder / name
    key: Any = serialization.load_pem_private_key((folder / issuer).read_bytes(), None)
    found = x509.load_pem_x509_certificates(path.read_bytes())
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(
            found[0].issuer, found[0].subject, found[0].public_key(), 1,
            now - datetime.timedelta(days=9), now - datetime.timedelta(days=1),
            list(found[0].extensions),
        ).sign(key, hashes.SHA256())
    )  # fmt: skip
    texts = [each.public_bytes(serialization.Encoding.PEM) for each in [made, *found[1:]]]
    path.write_bytes(b"".join(texts))


@pytest.mark.long
@pytest.mark.parametrize("step", ["renew", "trust"])
def test_certificates_that_have_ended_are_renewed(folder: pathlib.Path, step: str) -> None:
    make(folder)
    scheduler = Scheduler(folder)
    for name in LEAVES:
        ended(folder, name, "ca.key")
    assert not scheduler.meets()
    assert set(LEAVES) <= set(make(folder, step, renew_days=0))
    assert scheduler.meets()


@pytest.mark.long
@pytest.mark.parametrize("begun", [False, True])
def test_an_authority_that_has_ended_is_made_anew(folder: pathlib.Path, begun: bool) -> None:
    make(folder)
    if begun:
        make(folder, "trust")
    scheduler = Scheduler(folder)
    ended(folder, "ca.crt", "ca.key")
    made = ["ca.key", *LEAVES, "scheduler/ca.crt"] if begun else EVERYTHING
    assert make(folder, check=True)[0] == made[0]
    assert make(folder) == made
    scheduler.restart()
    assert scheduler.meets()
    # the change that had begun is at its end
    assert make(folder, "finish") == (["ca.crt", "scheduler/ca.crt"] if begun else [])
    assert make(folder, "finish") == []


@pytest.mark.parametrize("lost", [True, False])
def test_the_timer_makes_no_authority(folder: pathlib.Path, lost: bool) -> None:
    make(folder)
    scheduler = Scheduler(folder)
    if lost:
        (folder / "ca.key").unlink()  # its certificates are good for another ninety days
    else:
        ended(folder, "ca.crt", "ca.key")  # or so says the host's clock
    files = {path: path.read_bytes() for path in folder.rglob("*.*")}
    done = run(folder, "renew")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{folder}/ca.key is no key of an authority" in done.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == files
    assert scheduler.meets() is lost


def test_an_authority_near_its_end_fails_the_timer(folder: pathlib.Path) -> None:
    assert run(folder, "make", authority_days=179).returncode == 1
    done = run(folder, "renew")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{folder}/ca.crt ends within 180 days: run rotate.yml\n"
    assert run(folder, "trust", "--check").returncode == 0
    for step in ("trust", "finish"):
        assert run(folder, step).returncode in {0, 1}
    assert run(folder, "renew").returncode == 0


def test_a_fault_of_the_host_is_said(folder: pathlib.Path) -> None:
    done = run(folder, "make", group="nobody-has-this-group")
    assert done.returncode == 2
    assert "nobody-has-this-group" in done.stderr
