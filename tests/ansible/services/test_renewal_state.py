"""The renewal of certificates: who may hold it up, and what its unit says of it."""

import http.server
import pathlib
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest

from tests.ansible import layout
from tests.ansible.rendering import played_here
from tests.ansible.services.test_certificates import (
    EVERYTHING,
    PROGRAM,
    ROLE,
    WANTED,
    make,
    pytestmark,
    run,
)

__all__ = ["pytestmark"]

# systemd with one unit, of which it keeps how its last run has ended
SYSTEMCTL = """\
    #!{python}
    import pathlib, subprocess, sys
    assert sys.argv[1:] == ["start", "gpustack-certificates.service"], sys.argv
    status = subprocess.run({command}).returncode
    pathlib.Path("{state}").write_text("failed" if status else "inactive")
    sys.exit(1 if status else 0)
    """


class Ready(http.server.BaseHTTPRequestHandler):
    """An extender that is ready."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def extender() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), Ready) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/readyz"
        server.shutdown()


@pytest.mark.long
def test_a_change_of_the_authority_ends_the_fault_that_asked_for_it(
    tmp_path: pathlib.Path, extender: str
) -> None:
    pki, state = tmp_path / "pki", tmp_path / "state"
    (pki / "scheduler").mkdir(parents=True)
    assert run(pki, "make", authority_days=100).returncode == 1
    assert run(pki, "trust").returncode == 1
    state.write_text("failed")  # the timer's, which asks for rotate.yml
    command = [sys.executable, "-BI", str(PROGRAM), str(tmp_path / "renewal/settings.json")]
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.parent.mkdir()
    text = SYSTEMCTL.format(python=sys.executable, command=command, state=state)
    systemctl.write_text(textwrap.dedent(text))
    systemctl.chmod(0o755)
    told = {
        "__gpustack_extender_pki": str(pki),
        "__gpustack_extender_renewal": str(tmp_path / "renewal"),
        "__gpustack_extender_renew": command,
        "__gpustack_extender_pki_settings": {**WANTED, "folder": str(pki)},
        "__gpustack_extender_ask": {"url": extender, "use_proxy": False},
        "gpustack_extender_scheduler_group": WANTED["scheduler_group"],
    }
    finish = {"include_role": {"name": "gpustack_extender", "tasks_from": "finish"}}
    path = {"PATH": f"{systemctl.parent}:/usr/bin:/bin"}
    played_here(tmp_path, {"tasks": [finish], "environment": path}, told)
    assert state.read_text() == "inactive", "verify.yml, which rotate.yml ends with, would fail"


def test_no_other_user_holds_the_renewal_up(tmp_path: pathlib.Path) -> None:
    first = layout.load(ROLE / "tasks" / "certificates.yml")[0]["ansible.builtin.file"]
    pki = tmp_path / "pki"
    pki.mkdir()
    pki.chmod(int(first["mode"], 8))
    (pki / "scheduler").mkdir()
    tmp_path.chmod(0o755)  # those above it stay closed: another user begins in it
    lock = (
        "import fcntl, os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)"
    )
    asked = [sys.executable, "-c", lock, "pki"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert "PermissionError" in done.stderr, "holds the lock of timer and site.yml as it likes"
    assert make(pki) == EVERYTHING
    # a daemon reads its own by their paths
    read = lock.replace("fcntl.flock(", "(").replace(", fcntl.LOCK_EX", "")
    for name in ("ca.crt", "scheduler/ca.crt"):
        asked = [sys.executable, "-c", read, f"pki/{name}"]
        subprocess.run(asked, check=True, cwd=tmp_path)
