"""The testbed's command line: ``python -m tests.testbed COMMAND``."""

import argparse
import os
import pathlib
import sys

from tests.testbed import cluster, description, hosts, progress, testbed
from tests.testbed.artifacts import kubernetes, prepare
from tests.testbed.artifacts import repository as debian_repository


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    top = argparse.ArgumentParser(prog="python -m tests.testbed", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, allow_abbrev=False)

    def add_named(name: str, text: str) -> argparse.ArgumentParser:
        command = add(name, text)
        command.add_argument("--name", default=description.DEFAULT_NAME, help="the testbed's name")
        return command

    add("prepare", "install the Debian packages that the testbed needs")
    build = add("build", "build what the testbed needs into the cache")
    build.add_argument("--policy-scheduler", action="store_true", help="also kube-scheduler 1.22")
    add("repository", "build the simulated driver's package again")
    up = add_named("up", "start a control-plane host and GPU hosts, with a cluster on them")
    number = up.add_mutually_exclusive_group()
    number.add_argument("--gpu-hosts", type=int, default=2, metavar="N", help="default: 2")
    number.add_argument("--one-host", action="store_true", help="a GPU host with a control plane")
    up.add_argument(
        "--control-planes", type=int, default=1, metavar="N", help="with an API server each"
    )
    up.add_argument("--no-cluster", action="store_true", help="hosts only")
    up.add_argument("--cards", type=pathlib.Path, metavar="FILE", help="the hosts' cards")
    add_named("down", "stop a testbed; nothing of it is left")
    add_named("status", "show a testbed's hosts and nodes")
    shell = add_named("shell", "a shell on a host")
    shell.add_argument("host")
    execute = add_named("exec", "run a program on a host: exec HOST -- PROGRAM ...")
    execute.add_argument("host")
    execute.add_argument("words", nargs=argparse.REMAINDER, metavar="-- PROGRAM ...")
    kube = add_named("kube", "run kubectl on a testbed's cluster")
    kube.add_argument("words", nargs=argparse.REMAINDER, metavar="ARGUMENT ...")
    scheduler = add_named("scheduler", "choose the kube-scheduler that schedules")
    scheduler.add_argument("minor", choices=[kubernetes.CURRENT.minor, kubernetes.POLICY.minor])
    return top


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit status."""
    chosen = parser().parse_args(arguments)
    try:
        return _run(chosen)
    except progress.TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1


def _run(chosen: argparse.Namespace) -> int:
    match chosen.command:
        case "prepare":
            prepare.prepare()
        case "build":
            testbed.build(policy_scheduler=chosen.policy_scheduler)
        case "repository":
            debian_repository.build()
        case "up":
            _up(chosen)
        case "down":
            testbed.down(chosen.name)
            print(f"testbed {chosen.name} is gone")
        case "scheduler":
            cluster.use_scheduler(description.load(chosen.name), chosen.minor)
        case "status":
            return _status(description.load(chosen.name))
        case "shell" | "exec":
            return _execute(chosen)
        case "kube":
            found = description.load(chosen.name)
            command = cluster.kubectl_command(found, *after_dashes(chosen.words))
            os.execv(command[0], command)  # noqa: S606 (a shell would read the words again)
    return 0


def _up(chosen: argparse.Namespace) -> None:
    started = testbed.up(
        chosen.name,
        gpu_hosts=None if chosen.one_host else chosen.gpu_hosts,
        with_cluster=not chosen.no_cluster,
        control_planes=chosen.control_planes,
        cards_file=chosen.cards,
    )
    print(f"testbed {started.name} is up; its files, with inventory.yml, are in {started.state}")


def _status(found: description.Testbed) -> int:
    down = 0
    for host in found.hosts:
        pid = hosts.pid(found, host)
        down += pid is None
        print(f"{host.name:8} {host.address:16} {f'pid {pid}' if pid else 'not running'}")
    if found.cluster:
        print(cluster.kubectl(found, "get", "nodes"), end="")
    return 1 if down else 0


def _execute(chosen: argparse.Namespace) -> int:
    found = description.load(chosen.name)
    container = found.container(found.host(chosen.host))
    words = ["bash", "-l"] if chosen.command == "shell" else after_dashes(chosen.words)
    if not words:
        raise progress.TestbedError("exec HOST -- PROGRAM: which program?")
    terminal = ["--tty"] if sys.stdin.isatty() else []
    command = ["podman", "exec", "--interactive", *terminal, container, *words]
    os.execvp("podman", command)  # noqa: S606 (a shell would read the words again)


def after_dashes(words: list[str]) -> list[str]:
    """Return the words without the ``--`` before them, which newer argparse leaves in."""
    return words[1:] if words[:1] == ["--"] else words


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
