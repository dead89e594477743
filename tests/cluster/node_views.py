"""Prints what a GPU host has of its containers with cards: run there with the product's Python.

Each view by `POD_UID/CONTAINER`. The agent isn't asked: its audit is one of those to be compared.
"""

import json
import pathlib
import sys
from typing import Any

from gpustack.adapters import mapped
from gpustack.adapters.checkpoint import CheckpointFile
from gpustack.adapters.cri import CriClient
from gpustack.agent.kubelet.checkpoint import KubeletCheckpoint
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.keys import Keys

STATE = pathlib.Path("/var/lib/gpustack")
KUBELET = pathlib.Path("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")
RUNTIME = "unix:///run/containerd/containerd.sock"

View = dict[str, Any]


def records() -> View:
    return {
        f"{uid}/{each['name']}": [list(each["uuids"]), each["memory_units"] * MEMORY_UNIT_BYTES]
        for uid, record in CheckpointFile(STATE / "checkpoint.json").read().items()
        for each in record["containers"]
    }


def kubelet(keys: Keys) -> View:
    return {
        f"{each.pod_uid}/{each.container}": len(each.ids) * MEMORY_UNIT_BYTES
        for each in KubeletCheckpoint(KUBELET, keys).given()
        if each.resource == keys.vcuda_memory
    }


def runtime(keys: Keys) -> View:
    client = CriClient(RUNTIME)
    try:
        return {
            f"{each.pod_uid}/{each.name}": [
                [int(path.removeprefix("/dev/nvidia")) for path in devices.split(",")],
                int(each.annotations[keys.vcuda_memory]),
            ]
            for each in client.containers()
            for devices in [each.annotations.get(keys.vcuda_device)]
            if each.running and devices
        }
    finally:
        client.close()


def limits() -> View:
    found = {}
    for folder in (STATE / "containers").glob("*/*"):
        devices = mapped.read_limits(folder / "limits").devices
        memory = {each.memory_bytes for each in devices}
        found[f"{folder.parent.name}/{folder.name}"] = [[each.uuid for each in devices], *memory]
    return found


def ledgers() -> View:
    return {
        f"{folder.parent.name}/{folder.name}": [
            each.uuid for each in mapped.read_ledger(folder / "ledger").cards
        ]
        for folder in (STATE / "containers").glob("*/*")
    }


def main() -> None:
    keys = Keys("tencent.com")
    views = {
        "records": records(),
        "kubelet": kubelet(keys),
        "runtime": runtime(keys),
        "limits": limits(),
        "ledgers": ledgers(),
    }
    json.dump(views, sys.stdout)


if __name__ == "__main__":
    main()
