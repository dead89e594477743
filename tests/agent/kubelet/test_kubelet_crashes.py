"""The kubelet dies at any moment: a container starts with its own cards or its pod is failed."""

import contextlib
import dataclasses
import pathlib
import tempfile
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from gpustack.wire.pods import finished
from tests.agent.host import CORE, MEMORY, Host, Pod, container, decision, make_pod
from tests.fakes.kubelet import AdmissionError

pytestmark = pytest.mark.long

_SIZES = ((20, 8), (10, 8))
_HALFWAY = ("unknown", "known", "core", "memory", "both", "written")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One pod: its request, the times of its creation and its decision, and its end."""

    size: tuple[int, int]
    minor: int
    with_init: bool
    second: int
    decided: int
    turned_away: bool  # by the second kubelet, without a call to us

    def pod(self, name: str) -> Pod:
        cores, memory = self.size
        init = (container("prepare", cores, memory),) if self.with_init else ()
        written = decision((self.minor,), cores=cores, memory=memory, now_ns=self.decided)
        pod = make_pod(name, container("c0", cores, memory), init=init, annotations=written)
        pod["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{self.second:02d}Z"
        return pod


_ASKED = st.builds(
    _Asked,
    size=st.sampled_from(_SIZES),
    minor=st.integers(0, 1),
    with_init=st.booleans(),
    second=st.integers(0, 2),
    decided=st.integers(1, 9),
    turned_away=st.booleans(),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Story:
    """The steps of two kubelets.

    Attributes:
        done: how many pods the first one admits; the next pod it leaves halfway.
        started: how many of these it starts.
        early: how many pods the second one comes to before it knows our devices.
    """

    asked: tuple[_Asked, ...]
    done: int
    started: int
    halfway: str
    memory_first: bool
    early: int
    has_get: bool
    lists_active: bool


@st.composite
def _stories(draw: st.DrawFn) -> _Story:
    asked = draw(st.lists(_ASKED, min_size=2, max_size=4).map(tuple))
    done = draw(st.integers(0, len(asked)))
    lists_active = draw(st.booleans())
    return _Story(
        asked=asked,
        done=done,
        started=draw(st.integers(0, done)),
        halfway=draw(st.sampled_from(_HALFWAY)),
        memory_first=draw(st.booleans()),
        early=draw(st.integers(0, len(asked))),
        has_get=lists_active or draw(st.booleans()),
        lists_active=lists_active,
    )


class _Node:
    """The kubelets of one story, their pods, and the fate of each."""

    def __init__(self, host: Host, story: _Story) -> None:
        self.host, self.story = host, story
        self.kubelet = host.kubelet
        self.kubelet.has_get, self.kubelet.lists_active = story.has_get, story.lists_active
        self.pods = [host.create(each.pod(f"p{n}")) for n, each in enumerate(story.asked)]
        self.running: set[int] = set()
        self.rejected: set[int] = set()

    def first_life(self) -> None:
        story = self.story
        for number in range(story.done):
            self.admit(number)
        for number in range(story.started):
            self.start(number)
        if story.done < len(self.pods):
            self.leave_halfway(self.pods[story.done])

    def leave_halfway(self, pod: Pod) -> None:
        if self.story.halfway == "unknown":
            return
        self.kubelet.know(pod)
        first = (*pod["spec"]["initContainers"], *pod["spec"]["containers"])[0]
        if self.story.halfway == "written":
            self.kubelet.allocate(pod, first, memory_first=self.story.memory_first)
        for name, resource in (("core", CORE), ("memory", MEMORY)):
            if self.story.halfway in {name, "both"}:
                self.kubelet.allocate_resource(pod, first["name"], resource)

    def second_life(self) -> None:
        """Go through all pods by age; the API server gets the rejections afterwards."""
        self.kubelet.crash()
        order = sorted(range(len(self.pods)), key=lambda number: self.story.asked[number].second)
        for number in order[: self.story.early]:
            self.kubelet.know(self.pods[number])
            if number not in self.running:
                self.reject(number)
        self.kubelet.start()
        self.kubelet.wait_for_plugins(CORE, MEMORY)
        for number in order[self.story.early :]:
            self.kubelet.know(self.pods[number])
            if self.story.asked[number].turned_away and number not in self.running:
                self.reject(number)
            elif number not in self.running:
                self.admit(number)
        for number in self.rejected:
            self.host.end(self.pods[number], "Failed")

    def admit(self, number: int) -> None:
        try:
            self.kubelet.admit(self.pods[number], memory_first=self.story.memory_first)
        except AdmissionError:
            self.reject(number)

    def reject(self, number: int) -> None:
        self.kubelet.reject(self.pods[number])
        self.rejected.add(number)

    def start(self, number: int) -> None:
        pod, asked = self.pods[number], self.story.asked[number]
        for each in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            answer = self.kubelet.start_container(pod, each["name"], CORE)
            assert answer.devices[0].host_path == f"/dev/nvidia{asked.minor}"
            assert self._limits(answer) == str(self.host.folder(pod, each["name"]) / "limits")
        self.host.cri.run(pod["metadata"]["uid"], "c0", annotations=dict(answer.annotations))
        self.running.add(number)

    def try_to_start(self, number: int) -> None:
        with contextlib.suppress(AdmissionError):
            self.start(number)

    def is_failed(self, number: int) -> bool:
        return finished(self.host.api.get("pods", f"p{number}"))

    @staticmethod
    def _limits(answer: Any) -> str:
        mounts = {mount.container_path: mount.host_path for mount in answer.mounts}
        return str(mounts["/etc/vcuda/limits"])


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(story=_stories())
def test_a_container_starts_with_its_own_cards_or_its_pod_is_failed(story: _Story) -> None:
    with tempfile.TemporaryDirectory() as root, Host(pathlib.Path(root)) as host:
        host.start_agent()
        node = _Node(host, story)
        node.first_life()
        node.second_life()
        waiting = set(range(len(node.pods))) - node.rejected - node.running
        for number in sorted(waiting):
            node.try_to_start(number)
        stuck = waiting - node.running
        host.wait_until(lambda: all(map(node.is_failed, stuck)))
        if story.lists_active:
            turned = {n for n, each in enumerate(story.asked) if each.turned_away}
            assert not stuck, "this kubelet names the pod exactly"
            early = {n for n in node.rejected if n not in turned}
            assert len(early) <= story.early, "only pods that the kubelet rejected have failed"
