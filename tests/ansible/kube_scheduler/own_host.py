"""A host that gets a scheduler of our own: real files, processes and user, fake programs.

systemctl is a script that starts what the unit's file says; the scheduler is a script, too, which
reads its configuration: one with the word `refused` fails its trial, one with `stuck` its start.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import yaml

from tests.ansible.kube_scheduler.scheduler_host import GOOD, JOURNALCTL, PARTS
from tests.ansible.rendering import ansible
from tests.control_plane.processes import free_port

SCHEDULER = """\
    #!{python}
    import http.server, pathlib, sys
    if "--version" in sys.argv:
        sys.exit(print("Kubernetes {version}"))
    flags = dict(word.split("=", 1) for word in sys.argv[1:])
    said = pathlib.Path(flags["--config"]).read_text()
    if "refused" in said:
        sys.exit("run.go:72: strict decoding error")
    if "--write-config-to" in flags:
        sys.exit()
    if "stuck" in said:
        sys.exit("run.go:72: no right to do that")
    {handler}
    address = ("127.0.0.1", int(flags["--secure-port"]))
    http.server.ThreadingHTTPServer(address, Handler).serve_forever()
    """
SYSTEMCTL = """\
    #!{python}
    import os, pathlib, shlex, signal, subprocess, sys
    folder = pathlib.Path("{folder}")
    unit, pid, enabled = folder / "{unit}", folder / "pid", folder / "enabled"
    def command():
        text = unit.read_text().replace("\\\\\\n", " ")
        [line] = [line for line in text.splitlines() if line.startswith("ExecStart=")]
        return shlex.split(line.partition("=")[2])
    {alive}
    {lay_process}
    def end():
        if alive():
            os.kill(int(pid.read_text()), signal.SIGKILL)
        pid.unlink(missing_ok=True)
    verb = sys.argv[1]
    if verb in ("start", "restart"):
        if not unit.exists():
            sys.exit("Unit not found.")
        end()
        log = (folder / "journal").open("a")
        process = subprocess.Popen(
            command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        pid.write_text(str(process.pid))
        lay_process(folder, process.pid, "/system.slice/{unit}")
    elif verb == "stop":
        end()
    elif verb == "enable":
        enabled.touch()
    elif verb == "disable":
        enabled.unlink(missing_ok=True)
    elif verb == "is-enabled":
        sys.exit(print("enabled" if enabled.exists() else "disabled") or int(not enabled.exists()))
    elif verb == "show" and not unit.exists():
        print("LoadState=not-found\\nActiveState=inactive\\nMainPID=0\\nExecStart=")
    elif verb == "show":
        state = "active" if alive() else "failed" if pid.exists() else "inactive"
        words, main = command(), pid.read_text() if alive() else 0
        print(f"LoadState=loaded\\nActiveState={{state}}\\nMainPID={{main}}")
        print(f"UnitFileState={{'enabled' if enabled.exists() else 'disabled'}}")
        start = f"path={{words[0]}} ; argv[]={{' '.join(words)}} ; ignore_errors=no ;"
        print(f"ExecStart={{{{ {{start}} }}}}")
    """
UNIT = "gpustack-scheduler.service"
IDENTITY = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "gpustack",
    "clusters": [{"name": "cluster", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "gpustack-scheduler", "user": {"token": "none"}}],
    "contexts": [
        {"name": "gpustack", "context": {"cluster": "cluster", "user": "gpustack-scheduler"}}
    ],
}  # fmt: skip


@dataclasses.dataclass(slots=True)
class OwnHost:
    """One host below a folder, and beside it the controller's kube-scheduler."""

    folder: pathlib.Path
    port: int = 0
    user: str = ""

    def __post_init__(self) -> None:
        """Lay its programs."""
        self.port = free_port()
        # of a test that runs beside others
        self.user = f"gs-own-{self.port}"
        (self.folder / "bin").mkdir()
        (self.folder / "proc").mkdir()
        for name, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
            self._lay(self.folder / "bin" / name, text)
        self.give("v1.37.2")

    def _lay(self, path: pathlib.Path, text: str, version: str = "") -> None:
        values = {
            "python": sys.executable, "folder": self.folder, "unit": UNIT, "version": version,
            **PARTS,
        }  # fmt: skip
        path.write_text(textwrap.dedent(text).format(**values))
        path.chmod(0o755)

    def give(self, version: str) -> None:
        """Put a kube-scheduler of this version on the controller."""
        self._lay(self.binary, SCHEDULER, version)

    @property
    def binary(self) -> pathlib.Path:
        """Return the controller's kube-scheduler."""
        return self.folder / "given"

    @property
    def program(self) -> pathlib.Path:
        """Return the host's."""
        return self.folder / "opt" / "kube-scheduler"

    @property
    def config(self) -> pathlib.Path:
        """Return its configuration."""
        return self.folder / "etc" / "kube-scheduler.yaml"

    @property
    def unit(self) -> pathlib.Path:
        """Return its unit."""
        return self.folder / UNIT

    @property
    def pid(self) -> str:
        """Return the PID of the scheduler that was started last."""
        return (self.folder / "pid").read_text()

    def said(self) -> Any:
        """Return its configuration, parsed."""
        return yaml.safe_load(self.config.read_text())

    def stop(self) -> None:
        """End its scheduler, and remove its user."""
        subprocess.run([self.folder / "bin" / "systemctl", "stop"], check=True)
        for program in ("userdel", "groupdel"):
            subprocess.run([program, self.user], check=False, capture_output=True)

    def play(
        self, tasks_from: str = "main", *arguments: str, **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run the product's role on this host."""
        said = {
            "kube_scheduler_manager": "own",
            "kube_scheduler_tls": False,
            "kube_scheduler_own_binary": str(self.binary),
            "kube_scheduler_own_identity": IDENTITY,
            "kube_scheduler_own_port": self.port,
            "kube_scheduler_config_path": str(self.folder / "theirs.yaml"),
            "kube_scheduler_extender_url": GOOD,
            "kube_scheduler_health_url": f"http://127.0.0.1:{self.port}/healthz",
            "kube_scheduler_health_seconds": 4,
            "__kube_scheduler_own_folder": str(self.config.parent),
            "__kube_scheduler_proc": str(self.folder / "proc"),
            "__kube_scheduler_own_program": str(self.program),
            "__kube_scheduler_own_unit_path": str(self.unit),
            "__kube_scheduler_own_user": self.user,
            **variables,
        }
        role = {"import_role": {"name": "kube_scheduler", "tasks_from": tasks_from}}
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}:/usr/sbin"
        play = {
            "hosts": "localhost", "gather_facts": False, "tasks": [role],
            "environment": {"PATH": path},
        }  # fmt: skip
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        return ansible(
            "ansible-playbook", "--inventory=localhost,", "--connection=local",
            f"--extra-vars={json.dumps(said)}", *arguments, str(self.folder / "play.yml"),
        )  # fmt: skip
