"""Start and stop systemd hosts: podman containers that behave like machines.

The flags are those under which systemd, containerd and runc work inside a container on kernels
with cgroups of the old, the mixed and the new kind (docs/decisions/0003-hosts-by-podman.md).
"""

import collections.abc
import concurrent.futures
import ipaddress
import json
import os
import pathlib
import subprocess
import tempfile
import time

from tests.testbed import description, progress
from tests.testbed.host_files import files

# a host that needs longer than this hangs
BOOT_SECONDS = 60
POLL_SECONDS = 0.1
LIMITS = ("--ulimit=nofile=20000:20000", "--ulimit=nproc=30000:30000")
NAMESPACES = pathlib.Path("/run/netns")
Mounts = collections.abc.Mapping[str, pathlib.Path]


def create_network(name: str) -> str:
    """Make the network of a testbed and return its addresses, as ``10.89.3.0/24``."""
    network = description.network(name)
    # podman picks free addresses, and two that pick at the same time pick the same
    with progress.exclusive("podman-network"):
        progress.output(["podman", "network", "create", "--disable-dns",
                         f"--label={description.LABEL}={name}", network])  # fmt: skip
    described = json.loads(progress.output(["podman", "network", "inspect", network]))
    return str(ipaddress.IPv4Network(described[0]["subnets"][0]["subnet"]))


def create(
    testbed: description.Testbed,
    host: description.Host,
    image: str,
    entries: list[files.Entry],
    mounts: Mounts,
) -> None:
    """Make a host, with its files in place, and start it.

    Args:
        testbed: The testbed that the host belongs to.
        host: The host.
        image: The podman image of its root.
        entries: Its own files.
        mounts: Folders of this machine that it sees read-only, by their path in the host.
    """
    container = testbed.container(host)
    progress.output(create_command(testbed, host, image, mounts))
    copy(testbed, host, entries)
    progress.output(["podman", "start", container])


def copy(testbed: description.Testbed, host: description.Host, entries: list[files.Entry]) -> None:
    """Put files on a host, running or not.

    Raises:
        TestbedError: podman couldn't.
    """
    container = testbed.container(host)
    # "podman cp" leaves an empty folder behind in its folder for temporary files
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            ["podman", "cp", "-", f"{container}:/"],
            input=files.tar(entries), capture_output=True, check=False,
            env={**os.environ, "TMPDIR": scratch},
        )  # fmt: skip
    if done.returncode:
        raise progress.TestbedError(f"no files for {container}: {done.stderr.decode().strip()}")


def create_command(
    testbed: description.Testbed, host: description.Host, image: str, mounts: Mounts
) -> list[str | pathlib.Path]:
    """Return the podman command that makes a host's container."""
    label = f"--label={description.LABEL}={testbed.name}"
    command: list[str | pathlib.Path] = [
        "podman", "create", f"--name={testbed.container(host)}", f"--hostname={host.name}", label,
        # crun refuses hybrid cgroups; podman's own systemd mode breaks runc inside the host
        "--runtime=runc", "--systemd=false", "--cgroupns=private", "--privileged", *LIMITS,
        "--tmpfs=/run", "--tmpfs=/run/lock", "--tmpfs=/tmp", "--env=container=podman",
        "--stop-signal=SIGRTMIN+3",
        # "systemctl reboot" ends the container; this starts it again
        "--restart=always", f"--pidfile={testbed.pid_file(host)}",
        f"--network={description.network(testbed.name)}", f"--ip={host.address}", "--no-hosts",
    ]  # fmt: skip
    if host.role is description.Role.GPU:
        # overlay does not stack on overlay
        command.append(f"--volume={testbed.volume(host)}:/var/lib/containerd")
    command += [f"--volume={source}:{target}:ro" for target, source in mounts.items()]
    # systemd shares a machine's mounts with its units, and leaves a container's as they are
    # (mount_setup in its src/shared/mount-setup.c)
    return [*command, image, "/bin/sh", "-c", "mount --make-rshared / && exec /sbin/init"]


def wait_booted(testbed: description.Testbed, host: description.Host) -> None:
    """Wait until a host's systemd has started all of its units.

    Raises:
        TestbedError: It did not; the text names the units that failed.
    """
    deadline = time.monotonic() + BOOT_SECONDS
    said = ""
    while time.monotonic() < deadline:
        # right after the start it says "Failed to connect to bus"
        done = run(testbed, host, ["systemctl", "is-system-running", "--wait"])
        said = done.stdout.strip() or done.stderr.strip()
        if said == "running":
            return
        if said == "degraded":
            break
        time.sleep(POLL_SECONDS)
    failed = run(testbed, host, ["systemctl", "--failed", "--no-pager", "--plain"]).stdout
    raise progress.TestbedError(f"{testbed.container(host)} is {said!r}, not running:\n{failed}")


def run(
    testbed: description.Testbed, host: description.Host, command: list[str]
) -> subprocess.CompletedProcess[str]:
    """Run a program on a host and return its result, with any status."""
    return subprocess.run(
        ["podman", "exec", testbed.container(host), *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def output(testbed: description.Testbed, host: description.Host, command: list[str]) -> str:
    """Run a program on a host and return its output.

    Raises:
        TestbedError: It failed.
    """
    done = run(testbed, host, command)
    if done.returncode:
        raise progress.TestbedError(
            f"{host.name}: {' '.join(command)}: status {done.returncode}: {done.stderr.strip()}"
        )
    return done.stdout


def pid(testbed: description.Testbed, host: description.Host) -> int | None:
    """Return the PID of a host's init on this machine, or None when the host does not run."""
    done = subprocess.run(
        ["podman", "inspect", "--format={{.State.Pid}}", testbed.container(host)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = int(done.stdout) if done.returncode == 0 else 0
    return found or None


def each(
    hosts: collections.abc.Sequence[description.Host],
    work: collections.abc.Callable[[description.Host], None],
) -> None:
    """Run a step for all hosts at the same time; the first error is raised."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(hosts))) as pool:
        for done in [pool.submit(work, host) for host in hosts]:
            done.result()


def remove(name: str) -> None:
    """Remove all containers, volumes and networks of a testbed, of any earlier run.

    They are found by their label, and containers by their name too, so that this also cleans up
    after a run that was killed while it made one.
    """
    label = f"--filter=label={description.LABEL}={name}"
    names = f"--filter=name=^{name}-(cp|gpu)[0-9]+$"
    listing = ["podman", "ps", "--all", "--external", "--format={{.Names}}"]
    containers = {*_words([*listing, label]), *_words([*listing, names])}
    if containers:
        progress.output(["podman", "rm", "--force", "--time=0", "--volumes", *sorted(containers)])
    volumes = _words(["podman", "volume", "ls", label, "--format={{.Name}}"])
    if volumes:
        progress.output(["podman", "volume", "rm", "--force", *volumes])
    networks = _words(["podman", "network", "ls", label, "--format={{.Name}}"])
    if networks:
        progress.output(["podman", "network", "rm", "--force", *networks])
    if not _words(["podman", "ps", "--all", "--format={{.Names}}"]):
        _leave_no_mount()


def _leave_no_mount() -> None:
    """Undo podman's mount for network namespaces, which it makes again when it needs it."""
    while _is_mounted(NAMESPACES) and not any(NAMESPACES.iterdir()):
        progress.output(["umount", NAMESPACES])


def _is_mounted(folder: pathlib.Path) -> bool:
    """Say whether a path is a mount point; os.path.ismount doesn't see a bind mount."""
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    # the fifth field is the place (proc(5))
    return any(line.split()[4] == str(folder) for line in mounts)


def _words(command: list[str]) -> list[str]:
    return progress.output(command).split()


def create_volume(testbed: description.Testbed, host: description.Host) -> None:
    """Make the volume of a GPU host's images and containers."""
    progress.output(["podman", "volume", "create", f"--label={description.LABEL}={testbed.name}",
                     testbed.volume(host)])  # fmt: skip
