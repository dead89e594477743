"""A PID that the kernel gives to another container accuses nobody of what the driver shows for it.

The driver shows a PID for as long as anybody keeps a descriptor of its process: a child, too, when
the process has ended. Whoever makes processes by the thousand can wait for a neighbour to get it.
"""

import shutil

from gpustack.agent.violations.reactions import OnViolation
from tests.agent.activity.activity import CARD, Stage
from tests.agent.activity.test_gpu_time_accounts import PERCENT_NS, SECOND_NS, Second, wait_ns

MIB = 1 << 20


def move(stage: Stage, pid: int, container: str) -> None:
    """Give a PID that the driver shows to a process of another container, without the hook."""
    (stage.proc / str(pid) / "cgroup").write_text(f"0::/kubepods/pod1/{container}\n")
    stage.write_maps(pid, container, ())


def test_a_pid_that_moves_brings_its_memory_to_no_neighbour(stage: Stage) -> None:
    taker, honest = stage.share("taker"), stage.share("honest")
    pid = stage.process(taker, memory_bytes=6 << 30)
    stage.process(honest, memory_bytes=0)
    stage.sampler.look()
    move(stage, pid, honest)
    for _ in range(5):
        stage.sampler.look()
    assert stage.card("honest").unaccounted_bytes == 0
    assert stage.sampler.memory.unowned_bytes == {CARD.uuid: 6 << 30}
    assert {(each.kind, each.name) for each in stage.events} <= {("Node", "gpu1")}


def test_a_pid_whose_process_ended_unseen_is_no_later_ones(stage: Stage) -> None:
    """The agent has seen it after its end only, as after a restart."""
    honest = stage.share("honest")
    pid = stage.process(honest, memory_bytes=6 << 30)
    shutil.rmtree(stage.proc / str(pid))
    stage.sampler.look()
    (stage.proc / str(pid)).mkdir()
    move(stage, pid, honest)
    for _ in range(5):
        stage.sampler.look()
    assert stage.card("honest").unaccounted_bytes == 0
    assert {each.kind for each in stage.events} <= {"Node"}


def test_the_time_of_a_pid_that_moves_holds_back_no_neighbour(stage: Stage) -> None:
    taker, honest = stage.share("taker", cores=20), stage.share("honest", cores=20)
    pid = stage.process(taker, memory_bytes=0)
    second = Second(stage)
    move(stage, pid, honest)
    for _ in range(20):
        second.passes((pid, 100))
        assert wait_ns(stage, "honest") == 0
    assert [each for each in stage.events if each.kind == "Pod"] == []


def test_the_time_of_an_ended_processs_child_is_its_containers(stage: Stage) -> None:
    """It has ended, and a child that has them works on."""
    pid = stage.process(stage.share("taker", cores=20), memory_bytes=0)
    second = Second(stage)
    second.passes((pid, 20))
    shutil.rmtree(stage.proc / str(pid))
    second.passes((pid, 50))
    assert stage.card("taker").busy_ns == 70 * PERCENT_NS
    for _ in range(10):
        second.passes((pid, 100))
    assert wait_ns(stage, "taker") > SECOND_NS


def test_a_pid_that_a_container_gets_again_stays_its_own(stage: Stage) -> None:
    """Else a tenant could make its processes nobody's."""
    taker = stage.share("taker")
    pid = stage.process(taker, memory_bytes=2 << 30)
    stage.sampler.look()
    shutil.rmtree(stage.proc / str(pid))
    stage.sampler.look()
    (stage.proc / str(pid)).mkdir()
    move(stage, pid, taker)
    for _ in range(3):
        stage.sampler.look()
    assert stage.card("taker").unaccounted_bytes == 2 << 30


def begin_with_an_ended_process(stage: Stage) -> tuple[int, Second]:
    """Let a process end before the agent sees it; the driver shows it on."""
    pid = stage.process(stage.share("taker", cores=20), memory_bytes=0)
    (stage.proc / str(pid)).rename(stage.proc / "ended")
    return pid, Second(stage, collects=False)


def test_much_time_of_a_pid_that_is_nobodys_is_told_on_the_node(stage: Stage) -> None:
    """Else a tenant that waits for a PID of its own, ended process has a card's time unseen."""
    pid, second = begin_with_an_ended_process(stage)
    (stage.proc / "ended").rename(stage.proc / str(pid))
    second.passes((pid, 100))
    second.passes((pid, 100))
    assert stage.events == []
    for _ in range(8):
        second.passes((pid, 100))
    (event,) = stage.events
    assert (event.kind, event.reason) == ("Node", "UnexplainedUse")
    assert "container taker of the pod team/taker has a PID" in str(event.message)
    assert stage.card("taker").busy_ns == 0


def test_much_time_of_a_process_that_ended_unseen_is_told(stage: Stage) -> None:
    """A child has its descriptors, and works on."""
    pid, second = begin_with_an_ended_process(stage)
    for _ in range(10):
        second.passes((pid, 100))
    (event,) = stage.events
    assert (event.kind, event.reason) == ("Node", "UnexplainedUse")
    assert "a process that has ended before the agent saw it has a PID" in str(event.message)


def test_little_time_of_a_pid_that_is_nobodys_is_not_told(stage: Stage) -> None:
    pid, second = begin_with_an_ended_process(stage)
    for _ in range(200):
        second.passes((pid, 3))
    assert stage.events == []


def end_main_thread(stage: Stage, pid: int, container: str) -> None:
    """End a process's main thread, as cgroup v1 shows one: another thread goes on."""
    stage.write_pages(pid, 0)
    folder, thread = stage.proc / str(pid), stage.proc / str(pid) / "task" / str(pid + 5000)
    (folder / "cgroup").write_text("4:memory:/\n0::/\n")
    thread.mkdir()
    (thread / "cgroup").write_text(f"4:memory:/kubepods/pod1/{container}\n0::/\n")
    (thread / "stat").write_text(f"{pid} (train) R 1 1 1 0 -1 64 {'0 ' * 40}\n")
    (thread / "statm").write_text("900 3 2 1 0 4 0\n")
    (folder / "maps").rename(thread / "maps")
    (folder / "maps").touch()
    stage.write_start(pid, pid)


def test_a_process_whose_main_thread_has_ended_is_its_containers(stage: Stage) -> None:
    taker = stage.share("taker")
    pid = stage.process(taker, memory_bytes=60 << 30, maps=())
    end_main_thread(stage, pid, taker)
    for _ in range(3):
        stage.sampler.look()
    assert {(each.name, each.reason) for each in stage.events} == {
        ("taker", "UnhookedProcess"),
        ("taker", "MemoryAboveShare"),
    }
    assert stage.card("taker").unaccounted_bytes == 60 << 30


def test_a_pid_without_a_main_thread_that_moves_accuses_no_neighbour(stage: Stage) -> None:
    stage.on_violation = OnViolation.KILL
    taker, honest = stage.share("taker"), stage.share("honest")
    pid = stage.process(taker, memory_bytes=6 << 30, maps=())
    end_main_thread(stage, pid, taker)
    second = Second(stage)
    shutil.rmtree(stage.proc / str(pid) / "task")
    stage.write_start(pid, pid + 1)
    move(stage, pid, honest)
    for _ in range(6):
        second.passes((pid, 100))
    assert "honest" not in {each.name for each in stage.events}
    assert [pod for pod, _ in stage.killed if pod != "taker"] == []


def test_a_pid_that_was_a_zombies_at_first_is_no_later_ones(stage: Stage) -> None:
    """On cgroup v1 nothing says whose it was; its child has its descriptors."""
    honest = stage.share("honest")
    pid = stage.process(honest, memory_bytes=6 << 30)
    (stage.proc / str(pid) / "cgroup").write_text("4:memory:/\n0::/\n")
    stage.write_start(pid, pid)
    stage.write_pages(pid, 0)
    stage.sampler.look()
    stage.write_start(pid, pid + 1)
    move(stage, pid, honest)
    for _ in range(5):
        stage.sampler.look()
    assert stage.card("honest").unaccounted_bytes == 0
    assert {each.kind for each in stage.events} <= {"Node"}


def test_a_look_for_short_processes_gives_no_neighbour_a_moved_pid(stage: Stage) -> None:
    """Nor does the card's last word on it, once nobody has its descriptors any more."""
    taker, honest = stage.share("taker"), stage.share("honest", cores=20)
    brief, pid = (stage.process(taker, memory_bytes=0) for _ in range(2))
    stage.end(brief)
    second = Second(stage)
    second.passes((brief, 1))
    assert stage.usage.pause_seconds < 1, "it looks for short ones"
    move(stage, pid, honest)
    stage.now_ns += SECOND_NS // 2
    stage.usage.look_for_short_processes()
    stage.end(pid)
    second.passes((pid, 85))
    assert stage.card("honest").busy_ns == 0
