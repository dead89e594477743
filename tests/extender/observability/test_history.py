"""A day of the cluster in points of a minute, kept through restarts."""

import json
import pathlib
from typing import Any

import pytest

from extender.observability import history
from extender.observability.history import History, Point, observer
from extender.offline import OfflineExtender
from extender.settings import load
from gpustack.model.node import Card, Node
from tests.cli import snapshots

NOW = 1_800_000_000


class Minutes:
    """A clock that goes on by a minute whenever a point is made."""

    def __init__(self, seconds: int = NOW) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds

    def look(self, seconds: int) -> Point:
        self.seconds += 60
        return point(seconds)


def point(seconds: int, **fields: Any) -> Point:
    values = dict.fromkeys(Point.__struct_fields__, 0) | {"time": seconds, **fields}
    return Point(**values)


def days(path: pathlib.Path | None = None, seconds: int = NOW, *, points: int = 0) -> History:
    clock = Minutes(seconds)
    kept = History(clock.look, path=path, now=clock)
    for _ in range(points):
        kept.add()
    return kept


def test_a_point_is_what_the_cluster_is(tmp_path: pathlib.Path) -> None:
    sick = Card(minor=0, uuid="GPU-9", model="NVIDIA T4", memory_bytes=1 << 34, healthy=False)
    away = {**snapshots.node(Node(name="gpu2", cards=(sick,))), "spec": {"unschedulable": True}}
    bare = {"kind": "Node", "metadata": {"name": "cpu1"}}
    held = snapshots.pod("held", 30, 8, held=True)
    items = (snapshots.node(), away, bare, held, snapshots.pod("waits", 400, 0))
    extender = OfflineExtender(load(None), snapshots.write(tmp_path, *items))
    assert observer(extender.cache, lambda: 0.25, lambda nodes: len(list(nodes)) / 3)(NOW) == Point(
        time=NOW,
        nodes=2,
        away=1,
        cards=3,
        unhealthy=1,
        cores=300,
        cores_used=30,
        waiting=1,
        fragmented=0.25,
        utilised=0.6667,
    )


def test_a_day_is_kept_and_no_more() -> None:
    kept = days(points=history.MOST_POINTS + 3)
    assert [each.time for each in kept.points] == [
        NOW + 60 * number for number in range(3, history.MOST_POINTS + 3)
    ]


def test_points_are_written_every_five_minutes_of_any_day(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "history.json"
    kept = days(path)
    times = set()
    for _ in range(history.MOST_POINTS + 10):
        kept.add()
        times.add(json.loads(path.read_text())[-1]["time"] if path.exists() else None)
    assert times == {None, *range(NOW + 240, NOW + 60 * (history.MOST_POINTS + 10), 300)}


def test_points_outlive_a_restart(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "history.json"
    before = days(path, points=7)
    before.start()
    before.stop()
    assert days(path, NOW + 500).points == before.points


def test_points_of_an_older_extender_are_kept(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "history.json"
    days(path, points=2).write()
    older = [
        {name: value for name, value in each.items() if name != "utilised"}
        for each in json.loads(path.read_text())
    ]
    path.write_text(json.dumps(older))
    assert [each.utilised for each in days(path, NOW + 200).points] == [None, None]


def test_points_of_another_day_are_forgotten(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "history.json"
    before = days(path, points=4)
    before.write()
    assert [each.time for each in days(path, NOW + 24 * 3600 + 60).points] == [NOW + 120, NOW + 180]
    assert days(path, NOW - 1).points == []  # a clock that was put back


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", '[{"time": 1}]', "null", "[" + "0," * (1 << 20)],
    ids=["empty", "torn", "numbers", "other fields", "null", "endless"],
)
def test_a_file_that_cannot_be_read_costs_the_history_alone(
    tmp_path: pathlib.Path, text: str
) -> None:
    path = tmp_path / "history.json"
    path.write_text(text)
    kept = days(path)
    assert kept.points == []
    kept.add()
    kept.write()
    assert [each["time"] for each in json.loads(path.read_text())] == [NOW]


def test_a_folder_that_cannot_be_written_to_costs_nothing(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = days(tmp_path / "nowhere" / "history.json")
    kept.add()
    kept.write()
    kept.write()
    assert len(kept.points) == 1
    assert caplog.text.count("the history is not kept") == 1


def test_systemd_says_where_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    assert history.state_file() is None
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/gpustack-extender")
    assert history.state_file() == pathlib.Path("/var/lib/gpustack-extender/history.json")
