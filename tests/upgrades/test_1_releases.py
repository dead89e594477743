"""From 0.1.0 to this tree and back, while twenty pods allocate and launch."""

import json
import pathlib
import random

import pytest

from tests.cluster import rollout, workloads
from tests.upgrades import earlier_release, load
from tests.upgrades.fleet import Fleet

pytestmark = [pytest.mark.testbed, pytest.mark.nightly]

KILLS = 10
SEED = 22


def given_hook(root: pathlib.Path) -> str:
    """Return the SHA-256 of the hook's library in a checkout's bundle."""
    manifest = json.loads((root / "dist/gpustack-bundle/manifest.json").read_text())
    found: str = manifest["hook"]["x86_64"]["files"]["libvcuda.so"]
    return found


def hook_of_new_pod(fleet: Fleet, name: str) -> str:
    fleet.kubectl.apply(workloads.pod(name, load.SHARE))
    fleet.running(name)
    return load.hook_sum(fleet, name)


def unchanged(recaps: dict[str, rollout.Recap]) -> bool:
    return not any(recap.changed for recap in recaps.values())


def test_running_pods_live_through_an_upgrade_and_a_rollback(fleet: Fleet) -> None:
    earlier, ours = given_hook(earlier_release.tree()), given_hook(rollout.ROOT)
    with load.Load(site=fleet, name="busy") as busy:
        assert set(busy.hooks.values()) == {earlier}
        fleet.playbook("upgrade")
        busy.assert_unharmed()
        assert hook_of_new_pod(fleet, "upgraded") == ours
        assert unchanged(fleet.playbook("upgrade"))
        fleet.playbook("rollback")
        busy.assert_unharmed()
        assert hook_of_new_pod(fleet, "rolled-back") == earlier
        assert load.hook_sum(fleet, "upgraded") == ours
        assert fleet.json("upgraded", "cuda-workload")["devices"]
        assert unchanged(fleet.playbook("rollback"))
        busy.assert_unharmed()
        assert busy.assert_samples_within_limits() > load.PODS
    fleet.kubectl.delete("pods", "--all")


def test_a_run_after_a_killed_controller_ends_clean(fleet: Fleet) -> None:
    chosen = random.Random(SEED)  # noqa: S311
    with load.Load(site=fleet, name="busy") as busy:
        for turn in range(KILLS):
            playbook = ("upgrade", "rollback")[turn % 2]
            task = chosen.randrange(fleet.tasks(playbook))
            print(f"{playbook} killed at task {task}: {fleet.kill_at(task, playbook)}", flush=True)
            fleet.playbook(playbook)
            busy.assert_unharmed()
        assert busy.assert_samples_within_limits() > load.PODS
