"""Pods are replaced by the next of their name in any way: each runs on its own cards."""

import dataclasses
import pathlib
import tempfile

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.agent.host import CORE, MEMORY, Host, Pod, card_of, container, decision, make_pod

pytestmark = pytest.mark.long

_DELETED = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:01Z"}}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One pod is replaced by the next of its name.

    Attributes:
        minor: the card that was decided for the next one.
        restart: the programs that start again before that.
        shown: what our watch shows: no change, the deletion of the old one, or both.
    """

    name: str
    minor: int
    restart: tuple[str, ...]
    shown: str


_STEPS = st.builds(
    _Step,
    name=st.sampled_from(("web-0", "web-1")),
    minor=st.integers(0, 1),
    restart=st.sampled_from(((), ("agent",), ("kubelet",), ("agent", "kubelet"))),
    shown=st.sampled_from(("nothing", "leaving", "all")),
)


class _Sets:
    """The pods of two names, one after another."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.made = 0
        self.running: dict[str, tuple[Pod, str, int]] = {}  # by name: pod, container's ID, card

    def take(self, step: _Step) -> None:
        for who in step.restart:
            self.restart(who)
        old = self.running.pop(step.name, None)
        if old is not None:
            self.delete(old[0], old[1], step.shown)
        if step.shown != "all":
            self.host.api.hold_watches()
        new = self.replace(step, None if old is None else old[0])
        answer = self.host.kubelet.admit(new)["c0"]
        assert card_of(answer) == f"/dev/nvidia{step.minor}"
        self.host.kubelet.start_container(new, "c0", CORE)
        running = self.host.cri.run(
            new["metadata"]["uid"], "c0", annotations=dict(answer.annotations)
        )
        self.running[step.name] = (new, running, step.minor)
        self.host.api.release_watches()

    def restart(self, who: str) -> None:
        if who == "agent":
            self.host.stop_agent()
            self.host.start_agent()
        else:
            self.host.kubelet.restart()
            self.host.kubelet.wait_for_plugins(CORE, MEMORY)

    def delete(self, old: Pod, running: str, shown: str) -> None:
        self.host.cri.exit(running)
        if shown == "leaving":
            self.host.api.edit("pods", old["metadata"]["name"], _DELETED)
            self.host.wait_until(lambda: self.is_leaving(old))

    def is_leaving(self, pod: Pod) -> bool:
        seen = self.host.agent.pods.get(pod["metadata"]["uid"])
        return seen is not None and "deletionTimestamp" in seen["metadata"]

    def replace(self, step: _Step, old: Pod | None) -> Pod:
        if old is not None:
            self.host.api.delete("pods", step.name)
            self.host.kubelet.remove(old)
        self.made += 1
        written = decision((step.minor,), cores=50, memory=32, now_ns=self.made)
        pod = make_pod(step.name, container("c0", 50, 32), annotations=written)
        pod["metadata"]["uid"] = f"uid-{self.made}"
        return self.host.create(pod)

    def holds_what_runs(self) -> bool:
        records = {each.uid: each for each in self.host.agent.records.all()}
        return {uid: each.containers[0].placement.minors for uid, each in records.items()} == {
            pod["metadata"]["uid"]: (minor,) for pod, _, minor in self.running.values()
        }


@hypothesis.settings(max_examples=10, deadline=None)
@hypothesis.given(steps=st.lists(_STEPS, min_size=2, max_size=4))
def test_each_pod_of_a_name_runs_on_its_own_card(steps: list[_Step]) -> None:
    with tempfile.TemporaryDirectory() as root, Host(pathlib.Path(root)) as host:
        host.start_agent()
        sets = _Sets(host)
        for step in steps:
            sets.take(step)
        host.wait_until(sets.holds_what_runs)
