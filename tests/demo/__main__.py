"""``python -m tests.demo up | shell | down``."""

import argparse
import os
import subprocess
import sys

from tests.cluster import kubectl, opening, rollout
from tests.demo import dashboard, show
from tests.testbed.progress import TestbedError

NAME = "demo"


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
    print("kubectl get pods -o wide; kubectl describe pod NAME; exit leaves the demo running")
    environment = {
        **os.environ,
        "KUBECONFIG": str(site.kubectl.kubeconfig),
        "PATH": f"{site.kubectl.binary.parent}:{os.environ['PATH']}",
        "PS1": "gpustack-demo$ ",
    }
    return subprocess.call(["bash", "--norc"], env=environment)


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
