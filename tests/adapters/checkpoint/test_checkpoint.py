"""The records' file: what it holds, what it refuses, and the file that earlier agents wrote."""

import json
import logging
import pathlib
import zlib
from typing import Any

import pytest

from gpustack.adapters.checkpoint import CheckpointError, CheckpointFile, CheckpointVersionError
from gpustack.agent.containers.allocation_records import open_records

VERSION_1 = pathlib.Path(__file__).resolve().parents[2] / "data" / "checkpoint" / "version-1.json"
A, B = {"uid": "a", "n": 1}, {"uid": "b", "text": "é\n"}


def line(change: dict[str, Any]) -> bytes:
    """Return a line as the file has it."""
    text = json.dumps(change).encode()
    return f"{zlib.crc32(text):08x} ".encode() + text + b"\n"


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "c.json"


def read(path: pathlib.Path) -> dict[str, Any]:
    return CheckpointFile(path).read()


def test_records_read_back_as_they_were_changed(path: pathlib.Path) -> None:
    file = CheckpointFile(path)
    assert file.read() == {}
    file.put(A)
    file.put(B)
    file.put({**A, "n": 2})
    assert list(read(path).items()) == [("a", {"uid": "a", "n": 2}), ("b", B)]
    file.remove("b")
    assert read(path) == {"a": {"uid": "a", "n": 2}}
    assert [entry.name for entry in path.parent.iterdir()] == ["c.json"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_change_writes_its_own_line_alone(path: pathlib.Path) -> None:
    file = CheckpointFile(path)
    for number in range(100):
        file.put({"uid": str(number), "ids": "x" * 100})
    before = path.read_bytes()
    file.put(A)
    assert path.read_bytes() == before + line({"put": A})
    file.remove("no such record")
    assert path.read_bytes() == before + line({"put": A})


def test_the_file_stays_within_three_times_its_records(path: pathlib.Path) -> None:
    file = CheckpointFile(path)
    for number in range(300):
        file.put({"uid": str(number % 20), "ids": "x" * 9000})
        assert path.stat().st_size < 3 * 20 * 9100
    assert len(read(path)) == 20


def test_a_new_boot_of_the_host_is_noticed(path: pathlib.Path) -> None:
    first = CheckpointFile(path, boot_id="one")
    first.read()
    assert first.rebooted is None
    first.put(A)
    for boot, rebooted in (("one", False), ("two", True)):
        file = CheckpointFile(path, boot_id=boot)
        file.read()
        assert file.rebooted is rebooted
    file.renew()
    after = CheckpointFile(path, boot_id="two")
    assert after.read() == {"a": A}
    assert after.rebooted is False


def test_the_boot_is_the_kernels(path: pathlib.Path) -> None:
    CheckpointFile(path).put(A)
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert json.loads(path.read_bytes().split(b"\n")[0][9:])["boot_id"] == boot


def test_a_file_that_was_changed_or_removed_is_made_anew(path: pathlib.Path) -> None:
    file = CheckpointFile(path)
    file.put(A)
    path.unlink()
    file.put(B)
    assert read(path) == {"a": A, "b": B}
    path.write_bytes(path.read_bytes() + b"an editor's line\n")
    file.remove("a")
    assert read(path) == {"b": B}


@pytest.mark.parametrize("tail", [b"0123", b"\0" * 50, line({"put": B})[:-1], b"00000000 {}\n"])
def test_a_torn_last_line_is_dropped_and_logged(
    path: pathlib.Path, tail: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    CheckpointFile(path).put(A)
    path.write_bytes(path.read_bytes() + tail)
    file = CheckpointFile(path)
    with caplog.at_level(logging.WARNING):
        assert file.read() == {"a": A}
    assert f"dropped path={path} bytes=" in caplog.text
    file.put(B)
    assert read(path) == {"a": A, "b": B}


def damaged(text: bytes, damage: str) -> bytes:
    """Return a file of a header, two records and two changes with one damage."""
    lines = text.splitlines(keepends=True)
    return {
        "empty": b"",
        "zeros": bytes(len(text)),
        "no header": b"".join(lines[1:]),
        "header edited": text.replace(b'"records": 2', b'"records": 1'),
        "snapshot cut": b"".join(lines[:2]),
        "snapshot's last line torn": b"".join(lines[:2]) + lines[2][:-9],
        "line edited": text.replace(b'"n": 3', b'"n": 9'),
        "line lost its end": text.replace(lines[1], lines[1][:-1]),
        "removes what isn't there": text + line({"remove": "x"}) + line({"put": A}),
        "no uid": text + line({"put": {}}) + line({"put": A}),
        "no object": text + line([]) + line({"put": A}),  # type: ignore[arg-type]
        "document edited": VERSION_1.read_bytes().replace(b"gpu1", b"gpu2"),
        "document cut": VERSION_1.read_bytes()[:-5],
        "document nested": b'{"version": ' + b"[" * 100_000,
        "another document": b'{"a": 1}',
        "no number for a version": line({"version": "2"}),
    }[damage]


DAMAGES = (
    "empty",
    "zeros",
    "no header",
    "header edited",
    "snapshot cut",
    "snapshot's last line torn",
    "line edited",
    "line lost its end",
    "removes what isn't there",
    "no uid",
    "no object",
    "document edited",
    "document cut",
    "document nested",
    "another document",
    "no number for a version",
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_an_error_and_never_empty(path: pathlib.Path, damage: str) -> None:
    file = CheckpointFile(path)
    file.put(A)
    file.put(B)
    file.renew()
    file.put({"uid": "a", "n": 3})
    file.put({"uid": "a", "n": 4})
    text = damaged(path.read_bytes(), damage)
    assert text != path.read_bytes()
    path.write_bytes(text)
    with pytest.raises(CheckpointError, match=str(path)) as error:
        read(path)
    aside = file.set_aside(error.value.ending)
    assert aside.name == "c.json.broken"
    assert aside.read_bytes() == text
    assert read(path) == {}


@pytest.mark.parametrize(
    "content", [line({"version": 3}), b'{"version": 99, "checksum": "x", "data": {}}']
)
def test_a_newer_agents_checkpoint_is_named_and_kept(
    tmp_path: pathlib.Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "checkpoint.json"
    path.write_bytes(content)
    version = 99 if b"99" in content else 3
    with pytest.raises(CheckpointVersionError, match=f"{path}: checkpoint of version {version}"):
        read(path)
    with caplog.at_level(logging.ERROR):
        assert open_records(tmp_path).all() == ()
    kept = tmp_path / f"checkpoint.json.version-{version}"
    assert kept.read_bytes() == content
    assert f"kept as {kept}: {path}: checkpoint of version {version}; this agent reads" in (
        caplog.text
    )


def test_the_file_of_an_earlier_agent_is_read_and_gone_on_from(tmp_path: pathlib.Path) -> None:
    before = VERSION_1.read_bytes()
    (tmp_path / "checkpoint.json").write_bytes(before)
    records = open_records(tmp_path)
    pods = json.loads(before)["data"]["pods"]
    assert [record.uid for record in records.all()] == [pod["uid"] for pod in pods]
    assert [container.core_ids for container in records.all()[0].containers] == [
        tuple(container["core_ids"]) for container in pods[0]["containers"]
    ]
    records.remove(pods[0]["uid"])
    again = open_records(tmp_path)
    assert [record.uid for record in again.all()] == [pod["uid"] for pod in pods[1:]]
    assert again.all() == records.all()


def test_records_are_kept_while_the_disk_takes_no_change(tmp_path: pathlib.Path) -> None:
    (tmp_path / "checkpoint.json").write_bytes(VERSION_1.read_bytes())
    (tmp_path / ".checkpoint.json.new").mkdir()  # in the place of the file to make
    records = open_records(tmp_path)
    uid = records.all()[0].uid
    with pytest.raises(CheckpointError, match=r"\.checkpoint\.json\.new"):
        records.remove(uid)
    assert records.get(uid) is not None
    (tmp_path / ".checkpoint.json.new").rmdir()
    records.remove(uid)
    assert open_records(tmp_path).get(uid) is None


def test_a_checkpoint_in_no_folder_names_its_path(tmp_path: pathlib.Path) -> None:
    file = CheckpointFile(tmp_path / "gone" / "c.json")
    with pytest.raises(CheckpointError, match="gone"):
        file.put(A)


def test_a_link_in_the_files_place_is_not_written_through(tmp_path: pathlib.Path) -> None:
    path, other = tmp_path / "c.json", tmp_path / "other"
    CheckpointFile(other).put(A)
    text = other.read_bytes()
    path.symlink_to(other)
    file = CheckpointFile(path)
    assert file.read() == {"a": A}
    file.put(B)
    assert not path.is_symlink()
    assert other.read_bytes() == text
    assert read(path) == {"a": A, "b": B}
