"""Uninstall removes no package that others need, and ends on a host without apt, too."""

import pathlib

import pytest

from tests.ansible.rendering import run_role, words

pytestmark = pytest.mark.long

# What apt-get says of a removal: ours, one that came along with ours, and one of the site's.
SIMULATED = ["Purg site-tool [6-1]", "Purg driver-support [535-1]", "Purg driver-library [535-1]"]


def uninstall(folder: pathlib.Path, manual: list[str]) -> tuple[str, bool]:
    """Run the role's uninstall; returns its words, and whether it came to the removal."""
    (folder / "bin").mkdir()
    (folder / "record").write_text("driver-gone\ndriver-library\n")
    for name, lines in {
        # of the removal there is only an attempt; a name that apt doesn't know spoils all of it
        "apt-get": [
            '[ "$1" = --simulate ] || exit 1',
            'case "$*" in *driver-gone*) echo "Unable to locate package" >&2; exit 100 ;; esac',
            *(f"echo '{each}'" for each in SIMULATED),
        ],
        "dpkg-query": ["echo 'driver-library installed'", "exit 1"],
        "apt-mark": [f"echo {each}" for each in manual],
    }.items():
        (folder / "bin" / name).write_text("\n".join(["#!/bin/sh", *lines, ""]))
        (folder / "bin" / name).chmod(0o755)
    variables = {"__nvidia_driver_record": str(folder / "record")}
    done = run_role(
        folder, "nvidia_driver", "uninstall", variables, "--check", programs=folder / "bin"
    )
    return words(done), "TASK [nvidia_driver : Remove them]" in done.stdout


def test_a_package_of_the_site_that_needs_the_driver_is_named(tmp_path: pathlib.Path) -> None:
    said, removed = uninstall(tmp_path, ["bash", "site-tool", "driver-library"])
    assert "site-tool would be removed with the driver that they need" in said
    assert not removed


def test_packages_that_came_with_the_driver_go_with_it(tmp_path: pathlib.Path) -> None:
    said, removed = uninstall(tmp_path, ["bash", "driver-library"])
    assert "would be removed" not in said
    assert removed


def test_a_host_without_apt_is_uninstalled(tmp_path: pathlib.Path) -> None:
    """As RHEL, where the site's own driver stays: site.yml brought no repository there."""
    (tmp_path / "bin").mkdir()
    for name in ("apt-get", "apt-mark", "dpkg-query"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\nexit 127\n")
        (tmp_path / "bin" / name).chmod(0o755)
    variables = {
        "__nvidia_driver_record": str(tmp_path / "record"),
        "__nvidia_driver_source": str(tmp_path / "gpustack.sources"),
    }
    done = run_role(
        tmp_path, "nvidia_driver", "uninstall", variables, "--check", programs=tmp_path / "bin"
    )
    assert done.returncode == 0, words(done)
