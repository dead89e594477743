"""The role makes certificates that TLS libraries take, once, and again before they end."""

import datetime
import grp
import json
import os
import pathlib
import ssl
import stat
import subprocess
import sys
from typing import Any

import jinja2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from tests.ansible import layout
from tests.ansible.rendering import text_of

ROLE = layout.ROOT / "roles/gpustack_extender"
PROGRAM = ROLE / "files/certificates"
GROUP = grp.getgrgid(os.getgid()).gr_name
WANTED: dict[str, Any] = {
    "names": ["localhost", "127.0.0.1", "::1", "2001:db8::1f"],
    "client_name": "system:kube-scheduler",
    "days": 100,
    "renew_days": 50,
    "authority_days": 1000,
    "group": GROUP,
    "scheduler_group": GROUP,
}
FILES = {
    "ca.crt": 0o644,
    "ca.key": 0o640,
    "extender.crt": 0o644,
    "extender.key": 0o640,
    "reader.crt": 0o644,
    "reader.key": 0o640,
    "scheduler/ca.crt": 0o644,
    "scheduler/client.crt": 0o644,
    "scheduler/client.key": 0o640,
}
LEAVES = ["extender.crt", "scheduler/client.crt", "reader.crt"]
EVERYTHING = ["ca.crt", *LEAVES, "scheduler/ca.crt"]

pytestmark = pytest.mark.skipif(
    os.getuid() != 0, reason="gives files to root, as on a host: run it as root"
)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "scheduler").mkdir()
    return tmp_path


def make(
    folder: pathlib.Path, step: str = "make", *, check: bool = False, **changes: Any
) -> list[str]:
    """Run the program as Ansible does, or the timer ("renew"); returns the files that it made."""
    done = run(folder, step, *(["--check"] if check else []), **changes)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def run(
    folder: pathlib.Path, step: str, *arguments: str, **changes: Any
) -> subprocess.CompletedProcess[str]:
    settings = folder.parent / f"{folder.name}.json"
    settings.write_text(json.dumps({**WANTED, "folder": str(folder), **changes}))
    return subprocess.run(
        [sys.executable, "-BI", str(PROGRAM), str(settings), "--step", step, *arguments],
        check=False,
        capture_output=True,
        text=True,
    )


def content(folder: pathlib.Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def test_everything_is_made_once_with_the_right_modes(folder: pathlib.Path) -> None:
    assert make(folder, check=True) == EVERYTHING
    assert not (folder / "ca.crt").exists()
    assert make(folder) == EVERYTHING
    for name, mode in FILES.items():
        assert stat.S_IMODE((folder / name).stat().st_mode) == mode, name
    before = content(folder)
    assert make(folder) == []
    assert content(folder) == before
    assert sorted(path.name for path in folder.iterdir()) == [
        "ca.crt", "ca.key", "extender.crt", "extender.key", "reader.crt", "reader.key", "scheduler",
    ]  # fmt: skip


def test_scheduler_and_extender_accept_each_other(folder: pathlib.Path) -> None:
    make(folder)
    for name in ("127.0.0.1", "localhost", "::1"):
        assert met(folder, name) == "system:kube-scheduler"


@pytest.mark.long
@pytest.mark.parametrize(
    ("site", "names"),
    [
        ({}, ["127.0.0.1"]),
        ({"gpustack_extender_listen": "[2001:DB8::5]:3456"}, ["2001:db8::5", "127.0.0.1"]),
        (
            {
                "gpustack_extender_listen": "0.0.0.0:3456",
                "gpustack_extender_allowed_hosts": ["Plane.example", "[2001:db8::7]"],
                "kube_scheduler_extender_url": "https://192.0.2.10:3456/scheduler",
            },
            ["plane.example", "2001:db8::7", "192.0.2.10", "127.0.0.1"],
        ),
    ],
)
def test_the_scheduler_meets_an_extender_of_the_name_that_it_asks(
    folder: pathlib.Path, site: dict[str, Any], names: list[str]
) -> None:
    names_text = "__gpustack_extender_names | join(' ')"
    made = text_of(folder, "gpustack_extender", names_text, site).split()
    make(folder, names=made)
    for name in names:
        assert met(folder, name) == "system:kube-scheduler", made


def met(folder: pathlib.Path, name: str) -> str:
    """Let the scheduler ask the extender by a name; returns the name that the extender sees."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    server.load_cert_chain(folder / "extender.crt", folder / "extender.key")
    server.verify_mode = ssl.CERT_REQUIRED
    own = folder / "scheduler"
    client = ssl.create_default_context(cafile=str(own / "ca.crt"))
    client.load_cert_chain(own / "client.crt", own / "client.key")
    return shaken(server, client, name)


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str:
    """Shake hands in memory; returns the name that the server sees."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=name)
    waiting = [theirs, ours]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    assert not waiting
    certificate = ours.getpeercert()
    assert certificate is not None
    subject: Any = certificate["subject"]
    return str(subject[0][0][1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({"renew_days": 100}, LEAVES),
        ({"names": ["127.0.0.1"]}, ["extender.crt"]),
        ({"client_name": "system:other"}, ["scheduler/client.crt"]),
    ],
)
def test_a_certificate_near_its_end_or_of_another_name_is_made_again(
    folder: pathlib.Path, changes: dict[str, Any], made: list[str]
) -> None:
    make(folder)
    assert make(folder, **changes) == made
    if "renew_days" not in changes:
        assert make(folder, **changes) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("lost", "made"),
    [
        ("ca.key", EVERYTHING),
        ("extender.key", ["extender.crt"]),
        ("scheduler/client.crt", ["scheduler/client.crt"]),
        ("scheduler/ca.crt", ["scheduler/ca.crt"]),
        ("reader.key", ["reader.crt"]),
    ],
)
def test_a_lost_file_is_made_again(folder: pathlib.Path, lost: str, made: list[str]) -> None:
    make(folder)
    (folder / lost).unlink()
    assert make(folder) == made
    assert make(folder) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "content", "made"),
    [
        ("ca.key", "another", EVERYTHING),
        ("ca.key", "empty", EVERYTHING),
        ("extender.key", "locked", ["extender.crt"]),
        ("scheduler/client.key", "another", ["scheduler/client.crt"]),
    ],
)
def test_a_certificate_of_another_key_is_made_again(
    folder: pathlib.Path, key: str, content: str, made: list[str]
) -> None:
    make(folder)
    # as a run that ended between the two files, or a backup, leaves it
    if content == "empty":
        (folder / key).write_bytes(b"")
    else:
        lock = ("-aes256", "-pass", "pass:secret") if content == "locked" else ()
        curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        subprocess.run(["openssl", "genpkey", *curve, *lock, "-out", folder / key], check=True)
    assert make(folder) == made
    assert met(folder, "localhost") == "system:kube-scheduler"
    assert make(folder) == []


@pytest.mark.long
def test_an_authority_that_is_not_valid_yet_is_made_again(folder: pathlib.Path) -> None:
    make(folder)
    # the host's clock was a year ahead when the authority was made
    key: Any = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    found = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    begins = found.not_valid_before_utc + datetime.timedelta(days=365)
    later = (
        x509.CertificateBuilder(found.issuer, found.subject, key.public_key(), 1)
        .not_valid_before(begins)
        .not_valid_after(begins + datetime.timedelta(days=100))
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(later.public_bytes(serialization.Encoding.PEM))
    assert make(folder) == EVERYTHING
    assert make(folder) == []


def test_a_key_gets_its_owner_and_mode_again(folder: pathlib.Path) -> None:
    make(folder)
    certificates = content(folder)
    other = next(each for each in grp.getgrall() if each.gr_gid != os.getgid())
    for name in ("ca.key", "extender.key"):
        (folder / name).chmod(0o644)
        os.chown(folder / name, 12345, -1)
    changed = ["ca.key", "extender.key", "scheduler/client.key"]
    assert make(folder, check=True, scheduler_group=other.gr_name) == changed
    assert make(folder, scheduler_group=other.gr_name) == changed
    for name in changed:
        found = (folder / name).stat()
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o640), name
    assert (folder / "scheduler/client.key").stat().st_gid == other.gr_gid
    assert content(folder) == certificates
    assert make(folder, scheduler_group=other.gr_name) == []


@pytest.mark.long
def test_a_name_that_is_escaped_in_a_certificate_changes_nothing_again(
    folder: pathlib.Path,
) -> None:
    make(folder, client_name="plane, one")
    assert make(folder, client_name="plane, one") == []


def test_a_certificate_lasts_as_long_as_it_was_told_to(folder: pathlib.Path) -> None:
    make(folder)
    for name, days in {"ca.crt": 1000, **dict.fromkeys(LEAVES, 100)}.items():
        found = x509.load_pem_x509_certificate((folder / name).read_bytes())
        assert (found.not_valid_after_utc - found.not_valid_before_utc).days == days


@pytest.mark.long
@pytest.mark.parametrize(("days", "renew_days", "allowed"), [(90, 30, True), (90, 90, False)])
def test_preflight_refuses_certificates_that_each_run_would_make_anew(
    folder: pathlib.Path, days: int, renew_days: int, allowed: bool
) -> None:
    make(folder, days=days, renew_days=renew_days)
    assert (make(folder, days=days, renew_days=renew_days) == []) is allowed
    (check,) = (
        task["ansible.builtin.assert"]["that"]
        for task in layout.load(ROLE / "tasks" / "preflight.yml")
        if "renew_days" in str(task.get("ansible.builtin.assert"))
    )
    known = {
        "gpustack_extender_certificate_days": days,
        "gpustack_extender_certificate_renew_days": renew_days,
    }
    assert jinja2.Environment(autoescape=True).compile_expression(check)(**known) is allowed
