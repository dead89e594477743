"""An upgrade and a rollback in the playbooks' order, with pods of every release that run on.

upgrade.yml takes the extenders first, then agent and hook; rollback.yml goes the other way. Between
the two steps an extender is as new as any agent, and reads what the newer one publishes.
"""

import contextlib
import dataclasses
import pathlib
import subprocess
from typing import Any

import pytest

from tests.extender.client import eventually
from tests.fakes.kubelet import AdmissionError
from tests.hook.container import MIB
from tests.simgpu_tests.machine import first_line
from tests.versions import tenant
from tests.versions.cluster import Cluster
from tests.versions.pods import Pod, minor_of, pod_of, share, uid_of, whole_card
from tests.versions.releases import Release, Releases
from tests.versions.test_matrix import ALLOCATE, NO_MEMORY, SHARE_BYTES

CORES, UNITS = 20, 4  # ten of them fill the two cards
UNIT_BYTES = 256 * MIB
# It allocates half of its share, tries more than the rest, and does so again when it is told to.
WORK = f"""
    enter()
    assert allocate({UNITS * UNIT_BYTES} // 2)[0] == 0
    while True:
        print(info()[1], allocate({UNITS * UNIT_BYTES} // 2)[0], flush=True)
        input()
"""
LIMITED = f"{UNITS * UNIT_BYTES} 2"  # CUDA_ERROR_OUT_OF_MEMORY


@dataclasses.dataclass(slots=True, kw_only=True)
class Running:
    """A share with its process.

    Attributes:
        pod: it.
        answer: what its container began with.
        hook: whose build that has.
        inodes: of its files.
        process: in its container.
    """

    pod: Pod
    answer: Any
    hook: Release
    inodes: tuple[int, ...]
    process: "subprocess.Popen[str]"


def inodes(answer: Any, hook: Release) -> tuple[int, ...]:
    folder: pathlib.Path = tenant.folder(answer, hook.paths)
    return tuple((folder / name).stat().st_ino for name in hook.paths)


class Site:
    """A cluster whose shares of all steps run on until `closing` ends."""

    def __init__(self, cluster: Cluster, closing: contextlib.ExitStack) -> None:
        self.cluster = cluster
        self.closing = closing
        self.hook: Release | None = None
        self.shares: list[Running] = []

    def run(self, count: int = 1) -> None:
        """Start shares with the hook of now, and require their limits."""
        hook = self.hook
        assert hook is not None
        for _ in range(count):
            pod = self.cluster.schedule(pod_of(f"p{len(self.shares)}", CORES, UNITS))
            answer = self.cluster.admit(pod)
            assert tenant.minor(answer) == minor_of(pod)
            assert hook.name in str(tenant.hook_of(answer))
            self.shares.append(
                Running(
                    pod=pod,
                    answer=answer,
                    hook=hook,
                    inodes=inodes(answer, hook),
                    process=self._process(pod, answer, hook),
                )
            )

    def begin_agent(self, release: Release) -> None:
        """Let the agent and the hook be a release's."""
        self.cluster.start_agent(release, hook=release)
        self.hook = release

    def check(self) -> None:
        """Require that every share has what it began with, within its limits."""
        for each in self.shares:
            assert inodes(each.answer, each.hook) == each.inodes
            hook = tenant.hook_of(each.answer)
            assert hook is not None
            assert hook.exists()
            assert each.process.stdin is not None
            print(file=each.process.stdin, flush=True)
            assert first_line(each.process) == LIMITED
        used = {minor: 0 for minor in self.cluster.cards()}
        for each in self.shares:
            used[tenant.minor(each.answer)] += CORES
        assert max(used.values()) <= 100
        eventually(lambda: self.cluster.cards() == used)

    def restart_all(self) -> None:
        """Let each container end and start again, as after a crash of its program."""
        for each in self.shares:
            each.process.kill()
            each.process.wait()
            self.cluster.exit(each.pod)
            assert self.cluster.restart(each.pod) == each.answer
            each.process = self._process(each.pod, each.answer, each.hook)

    def _process(self, pod: Pod, answer: Any, hook: Release) -> "subprocess.Popen[str]":
        process = self.closing.enter_context(self.cluster.tenant(pod, answer, hook, WORK))
        assert first_line(process) == LIMITED
        return process


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("old", "ours", marks=pytest.mark.long),
        pytest.param("ours", "next", marks=pytest.mark.nightly),
    ],
)
def test_shares_run_on_through_an_upgrade_and_a_rollback(
    cluster: Cluster, releases: Releases, before: str, after: str
) -> None:
    earlier, later = releases[before], releases[after]
    with contextlib.ExitStack() as closing:
        site = Site(cluster, closing)
        cluster.start_extender(earlier)
        site.begin_agent(earlier)
        site.run(2)
        cluster.start_extender(later)
        site.run()
        site.check()
        site.begin_agent(later)
        site.run(2)
        site.restart_all()
        site.check()
        site.begin_agent(earlier)
        site.run(2)
        site.check()
        cluster.start_extender(earlier)
        site.run()
        site.check()
    for each in site.shares:
        cluster.end(each.pod)
    eventually(lambda: cluster.cards() == {0: 0, 1: 0})
    assert len({uid_of(each.pod) for each in site.shares}) == 8


@pytest.mark.nightly
def test_an_extender_left_behind_does_not_know_of_held_cards(
    cluster: Cluster, releases: Releases
) -> None:
    """Why the extender goes first: the agent refuses what an older one binds to such a card."""
    cluster.start_agent(releases["ours"], hook=releases["ours"])
    cluster.start_extender(releases["ours"])
    removed, other = (cluster.schedule(whole_card(name)) for name in ("removed", "other"))
    for pod in (removed, other):
        cluster.admit(pod)
    cluster.api.delete("pods", "removed")  # by force: its container runs on
    cluster.kubelet.remove(removed)
    late = cluster.api.create("pods", whole_card("late"))
    eventually(lambda: "held_cores" in cluster.published)
    eventually(lambda: not cluster.fits(late))
    cluster.start_extender(releases["old"])
    bound = cluster.schedule(whole_card("bound"))
    assert minor_of(bound) == minor_of(removed)
    with pytest.raises(AdmissionError, match=r"NoWholeCard: .*that are over and may still run"):
        cluster.admit(bound)


@pytest.mark.nightly
def test_a_share_that_one_agent_allocated_starts_under_the_other(
    cluster: Cluster, releases: Releases
) -> None:
    """Its kubelet has the answer of before, and asks the agent of now before each start."""
    old, ours = releases["old"], releases["ours"]
    cluster.start_extender(ours)
    for before, after in ((old, ours), (ours, old)):
        cluster.start_agent(before, hook=before)
        pod = cluster.schedule(share(f"of-{before.name}"))
        answer = cluster.kubelet.admit(pod)["main"]
        cluster.start_agent(after, hook=after)
        for _ in range(2):
            assert cluster.restart(pod) == answer
            with cluster.tenant(pod, answer, before, ALLOCATE) as process:
                assert first_line(process) == f"{SHARE_BYTES} {NO_MEMORY}"
            cluster.exit(pod)
