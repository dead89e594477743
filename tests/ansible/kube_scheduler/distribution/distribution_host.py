"""A host that runs k3s or RKE2: real files and processes, a fake server.

The fake merges argument files as k3s's documents say, and becomes the scheduler of `Host` with the
configuration that they name. It isn't k3s: that none was tried stays true.
"""

import dataclasses
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import yaml

from tests.ansible.kube_scheduler.scheduler_host import Host

SERVER = """\
    #!{python}
    import os, pathlib, sys, yaml
    if "--version" in sys.argv:
        sys.exit(print("{name} version v1.34.4+{name}r1 (0123abcd)\\ngo version go1.24.6"))
    folder = pathlib.Path("{rancher}")
    files = [folder / "config.yaml", *sorted((folder / "config.yaml.d").glob("*.yaml"))]
    said = {{}}
    for path in files:
        for key, value in (yaml.safe_load(path.read_text()) if path.exists() else {{}}).items():
            plain = key.removesuffix("+")
            said[plain] = [*said.get(plain, []), *value] if key.endswith("+") else value
    flags = [f"--{{word}}" for word in said.get("kube-scheduler-arg", [])]
    os.execv("{program}", ["{program}", "--profiling=false", *flags])
    """


@dataclasses.dataclass(slots=True)
class DistributionHost:
    """One host below a folder, whose server is `k3s` or `rke2`."""

    folder: pathlib.Path
    name: str
    host: Host = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Lay its programs and files, and start the server."""
        server = self.folder / "bin" / self.name
        self.host = Host(self.folder, command=f"{server} server")
        self.rancher.mkdir()
        (self.rancher / "config.yaml").write_text("token: a-secret\n")
        text = textwrap.dedent(SERVER).format(
            python=sys.executable, name=self.name, rancher=self.rancher, program=self.host.program
        )
        server.write_text(text)
        server.chmod(0o755)
        self.host.start_unit()

    @property
    def rancher(self) -> pathlib.Path:
        """Return the folder of the server's files."""
        return self.folder / "rancher"

    @property
    def config(self) -> pathlib.Path:
        """Return the scheduler's configuration."""
        return self.rancher / "gpustack-scheduler.yaml"

    @property
    def arguments(self) -> pathlib.Path:
        """Return our argument file."""
        return self.rancher / "config.yaml.d" / "90-gpustack.yaml"

    def lay(self, name: str, said: dict[str, Any]) -> None:
        """Lay an argument file of the site."""
        path = self.arguments.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(said))

    def command_line(self) -> list[str]:
        """Return the words that the scheduler was started with."""
        path = pathlib.Path(f"/proc/{self.host.pid}/cmdline")
        return path.read_text().rstrip("\0").split("\0")

    def files(self) -> list[str]:
        """Return what lies in the folder of the server's files."""
        there = self.rancher.rglob("*")
        return sorted(str(path.relative_to(self.rancher)) for path in there if path.is_file())

    def play(
        self, tasks_from: str = "main", *arguments: str, **variables: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run the product's role on this host."""
        said = {
            "kube_scheduler_manager": self.name,
            "kube_scheduler_config_path": str(self.config),
            "__kube_scheduler_distribution_folder": str(self.rancher),
            **variables,
        }
        return self.host.play(tasks_from, *arguments, **said)
