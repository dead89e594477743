"""The role installs, changes, adopts and removes the driver that Debian has, in this order.

Each test goes on where the one before has ended: DKMS takes minutes to build the modules once.
"""

import pytest

from tests.ansible import plugins
from tests.debian_driver.host import ARCHIVE, COMPONENTS, SECURITY, Host
from tests.testbed import root

pytestmark = [pytest.mark.testbed, pytest.mark.nightly]

driver = plugins.load("roles/nvidia_driver/filter_plugins/nvidia_driver.py")
# What the role takes on a host without cards.
PACKAGES = driver.nvidia_driver_packages(
    {}, {"distribution": "Debian", "distribution_version": "12"},
    modules="auto", branch="", build="dkms",
)  # fmt: skip
# The kernel that runs is this machine's and none of Debian's, so the headers are named.
HEADERS = ["linux-headers-amd64"]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    folder = tmp_path_factory.mktemp("debian") / "root"
    root.unpack(folder)
    return Host(folder)


@pytest.fixture(scope="module")
def before(host: Host) -> set[str]:
    """Return the packages of a host that has no driver."""
    return set(host.packages())


def test_debians_driver_is_installed_built_and_held(host: Host, before: set[str]) -> None:
    assert not before & set(PACKAGES)
    host.role(build_packages=HEADERS)
    found = host.packages()
    version = found["nvidia-kernel-dkms"]
    assert version.startswith("535.")
    assert set(PACKAGES) <= set(found)
    assert host.built() == version.partition("-")[0]
    assert set(PACKAGES) <= set(host.run("apt-mark", "showhold").split())
    assert host.role(build_packages=HEADERS).changed == 0


def test_another_version_comes_with_modules_of_its_own(host: Host) -> None:
    old = host.packages()
    host.read_archive(
        f"deb {ARCHIVE} bookworm {COMPONENTS}",
        f"deb {SECURITY} bookworm-security {COMPONENTS}",
    )
    version = host.candidate("nvidia-kernel-dkms")
    assert version != old["nvidia-kernel-dkms"], "Debian has one version alone at the moment"
    of_one_version = [name for name in PACKAGES if old[name] == old["nvidia-kernel-dkms"]]
    wanted = [f"{name}={version}" if name in of_one_version else name for name in PACKAGES]
    host.role(packages=wanted, build_packages=HEADERS)
    found = host.packages()
    assert {found[name] for name in of_one_version} == {version}
    assert host.built() == version.partition("-")[0]
    assert set(PACKAGES) <= set(host.run("apt-mark", "showhold").split())
    assert host.role(packages=wanted, build_packages=HEADERS).changed == 0


def test_uninstall_purges_what_the_role_has_brought(host: Host, before: set[str]) -> None:
    host.role("uninstall")
    assert not set(host.packages()) & set(PACKAGES)
    assert host.built() == ""
    assert host.run("apt-mark", "showhold") == ""
    # what came with it goes as apt's own users let it go; the headers are documented to stay
    host.run("apt-get", "--quiet", "--yes", "autoremove", "--purge")
    left = set(host.packages()) - before
    assert not [name for name in left if "nvidia" in name or "cuda" in name], left


def test_an_administrators_packages_are_adopted_and_stay(host: Host) -> None:
    # without those whose installation builds modules, a third time
    packages = [name for name in PACKAGES if "dkms" not in name]
    host.run("apt-get", "--quiet", "--yes", "--no-install-recommends", "install", *packages)
    installed = host.packages()
    host.role(packages=packages, build_packages=HEADERS)
    assert host.run("apt-mark", "showhold") == "", "they are the administrator's to hold"
    host.role("uninstall")
    left = host.packages()
    assert [name for name in packages if left.get(name) != installed[name]] == []
