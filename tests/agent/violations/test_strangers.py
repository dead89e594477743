"""A container on a card that others have shares of: their descriptors need no right of its own."""

from tests.agent.activity.activity import CARD, Stage
from tests.agent.violations.test_reactions import look


def _use(stage: Stage, pod_uid: str, name: str) -> None:
    container = stage.cri.run(pod_uid, name)
    stage.process(container, memory_bytes=60 << 30, maps=())


def test_a_sidecar_on_its_pods_card_is_told_once_on_the_node(stage: Stage) -> None:
    stage.share("taker")
    _use(stage, "uid-taker", "sidecar")
    look(stage, 20)
    (event,) = stage.events
    assert (event.kind, event.name, event.reason) == ("Node", "gpu1", "UnexplainedUse")
    assert f"container sidecar of the pod team/taker has processes on card {CARD.uuid}," in str(
        event.message
    )


def test_a_container_of_a_pod_without_a_card_is_told_by_its_uid(stage: Stage) -> None:
    stage.share("taker")
    _use(stage, "uid-other", "main")
    look(stage, 3)
    (event,) = stage.events
    assert "container main of the pod with UID uid-other has processes" in str(event.message)


def test_one_that_kept_descriptors_of_a_card_given_whole_is_told(stage: Stage) -> None:
    """Its pod had the card before; the next pod has all of it."""
    owner = stage.share("next", cores=100)
    stage.process(owner, memory_bytes=1 << 30, maps=())
    _use(stage, "uid-before", "main")
    look(stage, 20)
    (event,) = stage.events
    assert f"with UID uid-before has processes on card {CARD.uuid}" in str(event.message)


def test_a_container_whose_record_comes_later_is_no_stranger(stage: Stage) -> None:
    """The agent has lost its records, and restores them."""
    container = stage.share("late")
    record = stage.records.get("uid-late")
    assert record is not None
    stage.share("other")
    stage.process(container, memory_bytes=0)
    stage.records.remove("uid-late")
    look(stage, 2)
    stage.records.put(record)
    look(stage, 20)
    assert stage.events == []


def test_a_process_that_hides_its_cgroup_is_told_on_the_node(stage: Stage) -> None:
    """A tenant with namespaces of its own makes cgroups deeper than the kernel's page."""
    pid = stage.process(stage.share("taker"), memory_bytes=60 << 30, maps=())
    stage.write_start(pid, 5)
    cgroup = stage.proc / str(pid) / "cgroup"
    cgroup.unlink()
    cgroup.mkdir()  # no more to be read than such a path is
    look(stage, 20)
    (event,) = stage.events
    assert event.reason == "UnexplainedUse"
    assert "a process whose cgroup can't be read" in str(event.message)
    assert f"has processes on card {CARD.uuid}" in str(event.message)


def test_a_stranger_that_stays_is_told_again(stage: Stage) -> None:
    """An Event is there for an hour."""
    stage.share("taker")
    _use(stage, "uid-taker", "sidecar")
    look(stage, 610)
    assert [each.reason for each in stage.events] == ["UnexplainedUse"] * 2
