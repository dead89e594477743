"""A release's signed archive is enough outside a checkout, for hosts without a route."""

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cluster import rollout, workloads
from tests.upgrades.fleet import HOSTS, Fleet

pytestmark = [pytest.mark.testbed, pytest.mark.nightly]

WHO = "release@example.com"
PYTHON = sys.executable
BUNDLES = ("preflight", "gpustack_agent", "gpustack_extender", "gpustack_hook")
# As docs/operations.md tells a user of the collection to take from ours.
SETTINGS = """[defaults]
collections_path = collections
gathering = smart
inject_facts_as_vars = False
[connection]
pipelining = True
"""


def run(folder: pathlib.Path, *command: str | pathlib.Path) -> None:
    subprocess.run(list(map(str, command)), cwd=folder, check=True)


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with what the archive of this tree brings, laid out as the documents say."""
    made, away = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("away")
    run(made, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", made / "key")
    release = rollout.ROOT / "playbooks/scripts/release.py"
    run(rollout.ROOT, PYTHON, release, "--output", made / "release", "--sign", made / "key")
    public = (made / "key.pub").read_text()
    (away / "signers").write_text(f'{WHO} namespaces="gpustack-release" {public}')
    (archive,) = (made / "release").glob("gpustack-[0-9]*.tar")
    unpack = rollout.ROOT / "playbooks/scripts/unpack.py"
    who = ("--signers", away / "signers", "--identity", WHO)
    run(away, PYTHON, unpack, *who, archive, away / "release")
    (bundle,) = (away / "release").glob("gpustack-bundle-*.tar")
    run(away, "tar", "-xf", bundle, "-C", away)
    (collection,) = (away / "release").glob("gpustack-gpustack-*.tar.gz")
    place = f"--collections-path={away / 'collections'}"
    run(away, "ansible-galaxy", "collection", "install", "--offline", collection, place)
    (away / "ansible.cfg").write_text(SETTINGS)
    return away


@pytest.fixture
def without_route(fleet: Fleet) -> Iterator[None]:
    """Take the hosts' way out of their own networks."""
    routes = {host: fleet.on(host, "ip", "route", "show", "default").split() for host in HOSTS}
    for host, route in routes.items():
        fleet.on(host, "ip", "route", "del", *route)
    try:
        yield
    finally:
        for host, route in routes.items():
            fleet.on(host, "ip", "route", "add", *route)


@pytest.mark.usefixtures("without_route")
def test_a_site_comes_from_the_archive_alone(fleet: Fleet, away: pathlib.Path) -> None:
    assert fleet.traces() == [], "test_4_uninstall.py has left something"
    (bundle,) = away.glob("gpustack-bundle-*/")
    told = [f"--extra-vars={role}_bundle={bundle}" for role in BUNDLES]

    def play(name: str) -> dict[str, rollout.Recap]:
        inventory = str(rollout.ROOT / rollout.INVENTORY)
        return fleet.playbook(f"gpustack.gpustack.{name}", *told, root=away, inventory=inventory)

    play("site")
    assert not any(recap.changed for recap in play("site").values())
    fleet.kubectl.apply(workloads.pod("from-the-archive", workloads.SHARE))
    fleet.running("from-the-archive")
    assert not any(recap.changed for recap in play("verify").values())
    fleet.kubectl.delete("pod/from-the-archive")
