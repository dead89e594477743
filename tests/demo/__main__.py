"""``python -m tests.demo up | shell | down``."""

import argparse
import os
import pathlib
import shlex
import subprocess
import sys

from tests.cluster import kubectl, opening, rollout
from tests.demo import dashboard, show
from tests.testbed.progress import TestbedError

NAME = "demo"
ROOT = pathlib.Path(__file__).resolve().parents[2]


def up() -> int:
    """Roll out, show, check; the demo stays up for a look around."""
    site = opening.open_site(NAME, gpu_hosts=2)
    opening.roll_out(site)
    held = show.run(site)
    print(f"\nDashboard: {dashboard.open_page(site)}")
    print("Look around: make demo-shell     Stop, leaving nothing: make demo-down")
    return 0 if held else 1


def shell() -> int:
    """Give the caller a shell whose kubectl talks to the demo's cluster."""
    site = opening.find_site(NAME)
    print("kubectl get pods -o wide; gpustack get pods; more in docs/demo.md")
    print("exit leaves the demo running")
    # a shell ends with the status of its last command, which make would call an error
    subprocess.call(
        ["bash", "--norc"], env=environment(site.kubectl.kubeconfig, site.kubectl.binary)
    )
    return 0


def environment(kubeconfig: pathlib.Path, kubectl_binary: pathlib.Path) -> dict[str, str]:
    """Return the shell's: kubectl, and as functions `gpustack` and `on-host HOST PROGRAM …`."""
    run = f"PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)} -m"
    on_host = f"tests.testbed exec --name {NAME}"
    return {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "PATH": f"{kubectl_binary.parent}:{os.environ['PATH']}",
        "PS1": "gpustack-demo$ ",
        "BASH_FUNC_gpustack%%": f'() {{ {run} gpustack.cli.main "$@"; }}',
        "BASH_FUNC_on-host%%": f'() {{ {run} {on_host} "$1" -- "${{@:2}}"; }}',
    }


def down() -> int:
    """Stop the demo's hosts and remove what they left."""
    opening.close_site(NAME)
    return 0


def main() -> int:
    """Run one command; errors are one message, without a traceback."""
    parser = argparse.ArgumentParser(prog="tests.demo", description=__doc__)
    commands = {"up": up, "shell": shell, "down": down}
    parser.add_argument("command", choices=sorted(commands))
    try:
        return commands[parser.parse_args().command]()
    except (TestbedError, rollout.PlaybookError, kubectl.KubectlError, kubectl.WaitError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
