"""A host that runs kube-scheduler, as a unit or as a static pod: real processes, fake programs.

systemctl and journalctl are scripts that know one unit; the scheduler is a process that reads its
file, doesn't start with one with the word `broken`, and answers /healthz on a socket. What the
kernel says of a process is real, but for its cgroup.
Its trial refuses a file with the word `refused`, and any that names a file of `elsewhere`.
"""

import dataclasses
import json
import os
import pathlib
import signal
import ssl
import subprocess
import sys
import textwrap
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import yaml

from tests.ansible import layout
from tests.ansible.kube_scheduler.trial.laid_processes import HASH, lay_process
from tests.ansible.rendering import ansible
from tests.control_plane.processes import free_port
from tests.testbed.host_files import certificates

FOUND = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
GOOD = "http://127.0.0.1:3456/scheduler"
BROKEN = "http://127.0.0.1:3456/broken"
REFUSED = "http://127.0.0.1:3456/refused"
MANIFEST = """\
# as kubeadm wrote it
metadata: {name: kube-scheduler}
spec:
  containers:
  - name: kube-scheduler
    image: registry.test/kube-scheduler:v1.34.4
    command: [kube-scheduler, --leader-elect=true]
"""
# Parts of the programs of this host and of one with a scheduler of our own.
PARTS = {
    "handler": """\
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer.allow_reuse_address = True
""",
    "lay_process": f"""\
sys.path.insert(0, "{layout.ROOT}")
from tests.ansible.kube_scheduler.trial.laid_processes import lay_process
""",
    "alive": """\
def alive():
    try:
        return "Z" not in pathlib.Path(f"/proc/{pid.read_text()}/stat").read_text().split()[2]
    except OSError:
        return False
""",
}
SCHEDULER = """\
    #!{python}
    import http.server, pathlib, sys
    if "--version" in sys.argv:
        sys.exit(print("Kubernetes {version}"))
    named = [word.partition("=")[2] for word in sys.argv if word.startswith("--config=")]
    said = pathlib.Path(named[0]).read_text() if named else ""
    if any(word.startswith("--write-config-to=") for word in sys.argv):
        refused = "strict decoding error" * ("refused" in said)
        sys.exit(refused or "no such file" * ("elsewhere" in said) or 0)
    if "broken" in said:
        sys.exit("run.go:74: no such extender")
    {handler}
    http.server.ThreadingHTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
    """
SYSTEMCTL = """\
    #!{python}
    import os, pathlib, signal, subprocess, sys
    folder = pathlib.Path("{folder}")
    pid = folder / "pid"
    {alive}
    {lay_process}
    verb = sys.argv[1]
    if verb in ("start", "restart"):
        if alive():
            os.kill(int(pid.read_text()), signal.SIGKILL)
        log = (folder / "journal").open("a")
        process = subprocess.Popen(
            {command}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        pid.write_text(str(process.pid))
        lay_process(folder, process.pid, "/system.slice/kube-scheduler.service")
    elif verb == "stop":
        os.kill(int(pid.read_text()), signal.SIGKILL)
        pid.unlink()
    elif verb == "show":
        state = "active" if alive() else "failed" if pid.exists() else "inactive"
        main = pid.read_text() if alive() else 0
        loaded = "not-found" if any((folder / "manifests").iterdir()) else "loaded"
        print(f"LoadState={{loaded}}\\nActiveState={{state}}\\nMainPID={{main}}\\n" + {shown})
    """
JOURNALCTL = """\
    #!/bin/sh
    cat "{folder}/journal"
    """


def lay_certificates(folder: pathlib.Path) -> None:
    """Make a folder with a scheduler's certificate, its key, and an authority that it trusts."""
    folder.mkdir()
    client = certificates.authority("extender").client("system:kube-scheduler")
    (folder / "client.crt").write_bytes(client.certificate)
    (folder / "client.key").write_bytes(client.key)
    (folder / "ca.crt").write_bytes(client.certificate)


@dataclasses.dataclass(slots=True)
class Host:
    """One host below a folder; its scheduler is of one version."""

    folder: pathlib.Path
    version: str = "v1.34.4"
    shown: str = "NeedDaemonReload=no"
    command: str = ""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    kubelet: threading.Thread | None = None
    ended: threading.Event = dataclasses.field(default_factory=threading.Event)
    port: int = 0

    def __post_init__(self) -> None:
        """Lay its programs."""
        self.port = self.port or free_port()
        self.command = self.command or f"{self.program} --config={self.config}"
        (self.folder / "bin").mkdir()
        (self.folder / "manifests").mkdir()
        (self.folder / "proc").mkdir()
        self.kubeconfig.touch()
        start = f"path={self.command.split()[0]} ; argv[]={self.command} ; ignore_errors=no ;"
        shown = f"{self.shown}\nExecStart={{ {start} }}"
        values = {
            "python": sys.executable, "version": self.version, "port": self.port,
            "folder": self.folder, "command": self.command.split(), "shown": repr(shown), **PARTS,
        }  # fmt: skip
        for name, text in (
            ("kube-scheduler", SCHEDULER), ("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL),
        ):  # fmt: skip
            path = self.folder / "bin" / name
            path.write_text(textwrap.dedent(text).format(**values))
            path.chmod(0o755)

    @property
    def program(self) -> pathlib.Path:
        """Return the scheduler's program."""
        return self.folder / "bin" / "kube-scheduler"

    @property
    def config(self) -> pathlib.Path:
        """Return the scheduler's configuration."""
        return self.folder / "scheduler-config.yaml"

    @property
    def kubeconfig(self) -> pathlib.Path:
        """Return the scheduler's kubeconfig."""
        return self.folder / "scheduler.conf"

    @property
    def urls(self) -> list[str]:
        """Return the URLs of the configuration's extenders."""
        extenders = yaml.safe_load(self.config.read_text()).get("extenders") or []
        return [one["urlPrefix"] for one in extenders]

    @property
    def manifest(self) -> pathlib.Path:
        """Return the static pod's manifest."""
        return self.folder / "manifests" / "kube-scheduler.yaml"

    @property
    def pid(self) -> str:
        """Return the PID of the scheduler that was started last."""
        return (self.folder / "pid").read_text()

    def start_unit(self) -> None:
        """Start the scheduler as systemd would."""
        subprocess.run([self.folder / "bin" / "systemctl", "restart"], check=True)
        self.wait()

    def stop_unit(self) -> None:
        """Stop the scheduler as its operator would."""
        subprocess.run([self.folder / "bin" / "systemctl", "stop"], check=True)

    def start_kubelet(self) -> None:
        """Run what the manifest says, now and after each change."""
        self.kubelet = threading.Thread(target=self._run_pods)
        self.kubelet.start()
        self.wait()

    def _run_pods(self) -> None:
        ran: Any = None
        log = self.folder / "logs" / f"kube-system_kube-scheduler-here_{HASH}" / "kube-scheduler"
        log.mkdir(parents=True)
        process: subprocess.Popen[bytes] | None = None
        while not self.ended.wait(0.1):
            text = self.manifest.read_text()
            # a test that writes it has emptied it first
            pod = yaml.safe_load(text)
            # as the kubelet, which looks at what it says
            if pod and (pod != ran or process is None or process.poll() is not None):
                if process:
                    process.kill()
                    process.wait()
                ran, container = pod, pod["spec"]["containers"][0]
                command = [*container["command"], *container.get("args", [])]
                with (log / "0.log").open("a") as output:
                    process = subprocess.Popen(
                        command, executable=self.program, stdout=output, stderr=output
                    )
                lay_process(self.folder, process.pid)
                (self.folder / "pid").write_text(str(process.pid))
        if process:
            process.kill()
            process.wait()

    def answers(self) -> bool:
        """Tell whether the scheduler answers."""
        anyone = ssl._create_unverified_context()  # noqa: S323 - a real one makes its certificate
        try:
            with urllib.request.urlopen(self.health_url, timeout=1, context=anyone):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False

    def wait(self) -> None:
        """Wait until the scheduler answers."""
        deadline = time.monotonic() + 30
        while not self.answers():
            assert time.monotonic() < deadline, "the fake scheduler doesn't answer"
            time.sleep(0.05)

    def wait_for_another(self, before: str) -> None:
        """Wait until another process than `before` is the scheduler, and answers."""
        deadline = time.monotonic() + 30
        while self.pid == before:
            assert time.monotonic() < deadline, "the fake kubelet starts no other scheduler"
            time.sleep(0.05)
        self.wait()

    @property
    def health_url(self) -> str:
        """Return the URL that answers while the scheduler runs."""
        return f"http://127.0.0.1:{self.port}/healthz"

    def stop(self) -> None:
        """End all processes and threads."""
        self.ended.set()
        if self.kubelet:
            self.kubelet.join()
        elif (self.folder / "pid").exists() and pathlib.Path(f"/proc/{self.pid}").exists():
            os.kill(int(self.pid), signal.SIGKILL)

    def play(
        self, tasks_from: str = "main", *arguments: str, **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run the product's role on this host."""
        said = {
            "kube_scheduler_tls": False,
            "kube_scheduler_config_path": str(self.config),
            "kube_scheduler_kubeconfig": str(self.kubeconfig),
            "kube_scheduler_manifest_path": str(self.manifest),
            "kube_scheduler_manager": "static_pod" if self.kubelet else "systemd",
            "kube_scheduler_health_url": self.health_url,
            "kube_scheduler_health_seconds": 4,
            "__kube_scheduler_kubelet_seconds": 10,
            "__kube_scheduler_pod_logs": str(self.folder / "logs"),
            "__kube_scheduler_proc": str(self.folder / "proc"),
            **variables,
        }
        role = {"import_role": {"name": "kube_scheduler", "tasks_from": tasks_from}}
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        play = {
            "hosts": "localhost", "gather_facts": False, "tasks": [role],
            "environment": {"PATH": path, **self.environment},
        }  # fmt: skip
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        return ansible(
            "ansible-playbook", "--inventory=localhost,", "--connection=local",
            f"--extra-vars={json.dumps(said)}", *arguments, str(self.folder / "play.yml"),
        )  # fmt: skip


Make = Callable[..., Host]
