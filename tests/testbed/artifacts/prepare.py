"""Install the Debian packages that the testbed needs on this machine."""

import os
import subprocess

from tests.testbed import progress

# the program that shows that a package is there (or a file, with a slash), and the package
NEEDED = (
    ("podman", "podman"),
    ("runc", "runc"),
    # podman's networks; it only recommends them
    ("/usr/lib/podman/netavark", "netavark"),
    ("iptables", "iptables"),
    ("mmdebstrap", "mmdebstrap"),
    # mmdebstrap checks Debian's signatures with it, on Ubuntu as well
    ("/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"),
    ("dpkg-scanpackages", "dpkg-dev"),
    # Go trusts the system's authorities alone, and fetches modules over TLS
    ("/etc/ssl/certs/ca-certificates.crt", "ca-certificates"),
    ("ip", "iproute2"),
    ("make", "make"),
    ("gcc", "gcc"),
    ("/usr/include/stdlib.h", "libc6-dev"),
)


def missing() -> list[str]:
    """Return the packages that have to be installed."""
    return [package for shown_by, package in NEEDED if not _present(shown_by)]


def prepare() -> None:
    """Install the missing packages.

    Raises:
        TestbedError: This isn't a machine with apt, the user isn't root, or apt failed.
    """
    packages = missing()
    if not packages:
        print("--> this machine has all the packages that the testbed needs", flush=True)
        return
    words = " ".join(packages)
    if os.geteuid() != 0:
        raise progress.TestbedError(f"as root: apt-get install {words}")
    if not _present("apt-get"):
        raise progress.TestbedError(f"the testbed needs Debian or Ubuntu, or by hand: {words}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with progress.step(f"installing {words}"):
        progress.call(["apt-get", "update", "-qq"], log="testbed-apt-update", environment=quiet)
        progress.call(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
            log="testbed-apt", environment=quiet,
        )  # fmt: skip


def _present(shown_by: str) -> bool:
    if shown_by.startswith("/"):
        return os.path.exists(shown_by)
    found = subprocess.run(["sh", "-c", f"command -v {shown_by}"], capture_output=True, check=False)
    return found.returncode == 0
