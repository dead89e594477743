"""A host from which the simulated driver was purged still starts containers."""

import subprocess

from tests.testbed.artifacts import repository

# In a namespace of its own, over the folder of this machine. ldconfig isn't called.
PURGE = """
mount --types tmpfs none /var/lib
mkdir --mode=777 /var/lib/simgpu
touch /var/lib/simgpu/state /var/lib/simgpu/state.memory-3
sh "$0" purge
find /var/lib -printf '%p %m\\n'
"""


def test_the_folder_that_containers_mount_stays() -> None:
    script = repository.SOURCE / "debian/postrm"
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-euc", PURGE, str(script)],
        text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert "/var/lib/simgpu 777" in done.stdout.splitlines()
    assert len(done.stdout.splitlines()) == 2
