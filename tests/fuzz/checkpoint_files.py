"""The agent's records on disk, and the kubelet's: what a crash, a disk or a version left there.

The first byte of an input says whose file it is: `k` the kubelet's, `a` the agent's, of which each
line that begins with `=` is given its right CRC: a fuzzer doesn't find one.
"""

import json
import pathlib
import tempfile
import zlib
from typing import Final

from gpustack.adapters.checkpoint import CheckpointError, CheckpointFile
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.kubelet.checkpoint import KubeletCheckpoint, KubeletCheckpointError
from tests.fuzz.harness import Target
from tests.wire.api import KEYS

_FOLDER: Final = tempfile.TemporaryDirectory(prefix="gs.fuzz.", dir="/dev/shm")
_PATH: Final = pathlib.Path(_FOLDER.name) / "checkpoint.json"
_BOOT: Final = "boot-1"
_CHANGED: Final = 8  # records that are written again: each change costs time by their number


def check(data: bytes) -> None:
    if data.startswith(b"k"):
        _PATH.write_bytes(data[1:])
        _kubelets()
    else:
        _PATH.write_bytes(b"\n".join(_line(each) for each in data[1:].split(b"\n")))
        _agents()


def _line(text: bytes) -> bytes:
    return b"%08x %s" % (zlib.crc32(text[1:]), text[1:]) if text.startswith(b"=") else text


def _kubelets() -> None:
    try:
        found = KubeletCheckpoint(_PATH, KEYS).given()
    except KubeletCheckpointError:
        return
    assert all(each.resource in {KEYS.vcuda_core, KEYS.vcuda_memory} for each in found)


def _agents() -> None:
    file = CheckpointFile(_PATH, boot_id=_BOOT)
    try:
        records = file.read()
    except CheckpointError:
        return
    file.renew()
    again = CheckpointFile(_PATH, boot_id=_BOOT)
    assert json.dumps(again.read()) == json.dumps(records)  # by their text: NaN is no number
    try:
        opened = AllocationRecords(again)
    except CheckpointError:
        return
    for record in opened.all()[:_CHANGED]:
        assert opened.get(record.uid) == record
        assert record.placement.node == record.node
        assert len(opened.with_core_ids(frozenset())) >= 0
        opened.put(record)
    reopened = AllocationRecords(CheckpointFile(_PATH, boot_id=_BOOT))
    assert repr(reopened.all()) == repr(opened.all())


def _records() -> bytes:
    container = {
        "name": "main",
        "kind": "app",
        "index": 0,
        "minors": [0],
        "uuids": ["GPU-0"],
        "cores": 50,
        "memory_units": 32,
        "core_ids": ["0-1"],
        "memory_ids": [],
        "verified": True,
        "layout": 1,
    }
    record = {
        "uid": "u-1",
        "namespace": "a",
        "name": "p",
        "node": "n1",
        "decided_ns": 1,
        "source": "extender",
        "containers": [container],
    }
    header = {"version": 2, "boot_id": _BOOT, "records": 1}
    lines = [header, {"put": record}, {"put": {**record, "uid": "u-2"}}, {"remove": "u-1"}]
    return b"".join(b"=" + json.dumps(each).encode() + b"\n" for each in lines)


_OLD: Final = pathlib.Path(__file__).parents[1] / "data" / "checkpoint" / "version-1.json"
_ENTRY: Final = (
    b'{"PodUID":"u-1","ContainerName":"main","ResourceName":"tencent.com/vcuda-core",'
    b'"DeviceIDs":{"-1":["0-1"]},"AllocResp":"GhkKC2RyaXZlci1wYXRoEgovZXRjL3ZjdWRh"}'
)

TARGET: Final = Target(
    check=check,
    seeds=[
        b"a" + _records(),
        b"a" + _OLD.read_bytes(),
        b'k{"Data":{"PodDeviceEntries":[%b],"RegisteredDevices":{}},"Checksum":1}' % _ENTRY,
    ],
    words=[
        '={"put":',
        '={"remove":',
        '"uid":',
        '"records":',
        '"version":',
        '"containers":',
        '"core_ids":',
        '"minors":',
        "\\ud800",
        "1e400",
        "NaN",
        "\n=",
        '"AllocResp":',
        "=null",
    ],
    limit_bytes=512 << 10,  # a record has some 1 KB, and a host a few hundred
    cpu_seconds=8.0,
)
