"""An agent whose plugins moved to other sockets (the kubelet refused the first ones) is well."""

import http.server
import os
import pathlib
import stat
import subprocess
import threading
from typing import Any

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.rendering import ansible

pytestmark = pytest.mark.long

SYSCTL = "#!/bin/sh\necho 0\n"  # the kernel gives no leases
SYSTEMCTL = """#!/bin/sh
case "$1" in
is-enabled) echo enabled ;;
*) printf '%s\\n' LoadState=loaded ActiveState=active UnitFileState=enabled \\
     NoNewPrivileges=yes ProtectSystem=strict Wants=gpustack-mount.service ;;
esac
"""
# of 0.1.0, whose agent mounts nothing by a unit of its own
EARLIER = """#!/bin/sh
case "$*" in
is-enabled*) echo enabled ;;
*gpustack-mount*) printf '%s\\n' LoadState=not-found ActiveState=inactive ;;
*) printf '%s\\n' LoadState=loaded ActiveState=active UnitFileState=enabled \\
     NoNewPrivileges=yes ProtectSystem=strict Wants=network-online.target ;;
esac
"""
MOVED = ("vcore-2.sock", "vmemory-3.sock")
# The others are at fixed paths, which are this machine's.
UNINSTALL = ("Look for sockets", "Remove sockets")


class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print no line: pytest's output is for failures."""


class Stage:
    """A kubelet's folder, and an agent that answers."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self.plugins = folder / "kubelet" / "device-plugins"
        self.plugins.mkdir(parents=True)
        for name in (*MOVED, "kubelet.sock", "nvidia-gpu.sock"):
            os.mknod(self.plugins / name, stat.S_IFSOCK | 0o600)
        (folder / "bin").mkdir()
        self.program("systemctl", SYSTEMCTL)
        self.program("sysctl", SYSCTL)

    def program(self, name: str, text: str) -> None:
        program = self._folder / "bin" / name
        program.write_text(text)
        program.chmod(0o755)

    def run(self, tasks: list[dict[str, Any]], port: int = 0) -> subprocess.CompletedProcess[str]:
        variables = {
            "gpustack_agent_kubelet_path": str(self.plugins.parent),
            "gpustack_agent_http_address": "127.0.0.1",
            "gpustack_agent_http_port": port,
        }
        play = {"hosts": "h", "gather_facts": False, "vars": variables, "tasks": tasks}
        (self._folder / "play.yml").write_text(yaml.safe_dump([play]))
        return ansible(
            "ansible-playbook", "--inventory=h,", "--connection=local",
            str(self._folder / "play.yml"), programs=self._folder / "bin",
        )  # fmt: skip


@pytest.fixture
def stage(tmp_path: pathlib.Path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.parametrize("systemctl", [SYSTEMCTL, EARLIER], ids=["ours", "0.1.0"])
def test_verify_passes_an_agent_at_other_sockets(stage: Stage, systemctl: str) -> None:
    stage.program("systemctl", systemctl)
    role = {"ansible.builtin.import_role": {"name": "gpustack_agent", "tasks_from": "verify"}}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ready)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        done = stage.run([role], server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stdout


def test_uninstall_removes_every_socket_of_ours_and_no_other(stage: Stage) -> None:
    tasks = layout.load(layout.ROOT / "roles/gpustack_agent/tasks/uninstall.yml")
    done = stage.run([each for each in tasks if each["name"] in UNINSTALL])
    assert done.returncode == 0, done.stdout
    assert sorted(path.name for path in stage.plugins.iterdir()) == [
        "kubelet.sock", "nvidia-gpu.sock",
    ]  # fmt: skip
