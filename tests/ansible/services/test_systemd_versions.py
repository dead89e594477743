"""The units run on hosts with the oldest systemd that preflight accepts.

systemd ignores an unknown directive, with a line in its journal. That is right for hardening only,
which preflight then names.
"""

import json
import pathlib
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.ansible import layout
from tests.ansible.rendering import ansible, words

pytestmark = pytest.mark.long

UNITS = (
    "gpustack-agent.service",
    "gpustack-device.service",
    "gpustack-extender.service",
    "gpustack-mount.service",
    "gpustack-token.service",
    "gpustack-token.timer",
)
PREFLIGHT = layout.ROOT / "roles" / "preflight"

# The systemd release that brought each directive, by its NEWS file
# (https://github.com/systemd/systemd/blob/main/NEWS); 1 where NEWS, which is complete from 210 on,
# has always known it.
INTRODUCED = {
    **dict.fromkeys(
        (
            "After", "Before", "CapabilityBoundingSet", "Description", "DeviceAllow",
            "DevicePolicy", "ExecReload", "ExecStart", "ExecStartPre", "Group", "LimitNOFILE",
            "NoNewPrivileges", "NotifyAccess", "OnBootSec", "OnCalendar", "PrivateDevices",
            "PrivateNetwork", "PrivateTmp",
            "RemainAfterExit", "Requires", "Restart", "RestartSec", "SystemCallArchitectures",
            "SystemCallErrorNumber", "SystemCallFilter", "TimeoutStartSec", "TimeoutStopSec",
            "Type", "UMask", "User", "WantedBy", "Wants", "WatchdogSec",
        ),
        1,
    ),
    "FileDescriptorStoreMax": 219,
    "IPAddressDeny": 235,
    "LockPersonality": 235,
    "MemoryDenyWriteExecute": 231,
    "MemoryHigh": 231,
    "MemoryMax": 231,
    "PrivateIPC": 248,
    "PrivateMounts": 239,
    "PrivateUsers": 232,
    "ProcSubset": 247,
    "ProtectClock": 245,
    "ProtectControlGroups": 232,
    "ProtectHome": 214,
    "ProtectHostname": 242,
    "ProtectKernelLogs": 244,
    "ProtectKernelModules": 232,
    "ProtectKernelTunables": 232,
    "ProtectProc": 247,
    "ProtectSystem": 214,
    "ReadWritePaths": 231,
    "RandomizedDelaySec": 229,
    "RemoveIPC": 212,
    "RestrictAddressFamilies": 211,
    "RestrictNamespaces": 233,
    "RestrictRealtime": 231,
    "RestrictSUIDSGID": 242,
    "RuntimeDirectory": 211,
    "RuntimeDirectoryMode": 211,
    "StartLimitIntervalSec": 230,
    "StateDirectory": 235,
    "StateDirectoryMode": 235,
    "TasksMax": 227,
}  # fmt: skip
# Values that are younger than their directive: one that isn't known is refused or ignored whole.
VALUES = {
    "ProtectSystem": {"strict": 232},
    "SystemCallFilter": {
        "@system-service": 239, "@module": 231, "@mount": 231, "@privileged": 231,
        "@resources": 231, "mount": 1, "umount2": 1,
    },
    "Type": {"notify": 1, "oneshot": 1},
    "ProtectHome": {"yes": 1},
    "DevicePolicy": {"closed": 1},
    "Restart": {"always": 1},
}  # fmt: skip


def directives(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each directive; those for other programs (X-…) are theirs."""
    joined = re.sub(r"\\\n", " ", text)
    yield from re.findall(r"^([A-Z]\w+)=(.*)$", joined, re.MULTILINE)


def minimum() -> int:
    return int(layout.defaults("preflight")["preflight_systemd_minimum"])


def optional() -> dict[str, int]:
    """Return the directives that a host may lack, as preflight names them."""
    variables = layout.load(PREFLIGHT / "vars" / "main.yml")
    found: dict[str, int] = variables["__preflight_hardening_since"]
    return found


@pytest.mark.parametrize("name", UNITS)
def test_the_oldest_systemd_knows_every_directive_or_does_without(
    rendered: pathlib.Path, name: str
) -> None:
    for directive, value in directives((rendered / name).read_text("utf-8")):
        since = INTRODUCED.get(directive)
        assert since, f"{directive}: add the release that brought it, from systemd's NEWS"
        assert since <= minimum() or optional().get(directive) == since, directive
        for word in value.lstrip("~").split() if directive in VALUES else ():
            known = VALUES[directive].get(word)
            assert known, f"{directive}={word}: add the release that brought it"
            assert known <= minimum(), f"{directive}={word}"


def test_only_hardening_may_be_missing() -> None:
    assert all(re.match("Protect|Private|Restrict|ProcSubset", name) for name in optional())


def test_every_named_directive_is_used_by_a_unit(rendered: pathlib.Path) -> None:
    used = {
        directive
        for name in UNITS
        for directive, _ in directives((rendered / name).read_text("utf-8"))
    }
    assert set(optional()) <= used


@pytest.mark.parametrize(
    ("version", "missing"),
    [
        (238, None),
        (239, ["PrivateIPC", "ProcSubset", "ProtectClock", "ProtectHostname", "ProtectKernelLogs",
               "ProtectProc", "RestrictSUIDSGID"]),
        (245, ["PrivateIPC", "ProcSubset", "ProtectProc"]),
        (248, []),
    ],
)  # fmt: skip
def test_preflight_names_the_hardening_that_a_host_does_without(
    tmp_path: pathlib.Path, version: int, missing: list[str] | None
) -> None:
    facts = {"service_mgr": "systemd", "system": "Linux", "systemd": {"version": version}}
    tasks = [{"import_role": {"name": "preflight", "tasks_from": "host"}}]
    (tmp_path / "play.yml").write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}])
    )
    done = ansible(
        "ansible-playbook", "--inventory=localhost,", "--connection=local",
        f"--extra-vars={json.dumps({'ansible_facts': facts})}", f"{tmp_path}/play.yml",
    )  # fmt: skip
    said = words(done)
    if missing is None:
        assert "systemd 239 or newer must run this host" in said
        return
    assert done.returncode == 0, done.stdout
    assert ("does not know" in said) == bool(missing)
    if missing:
        assert f"does not know {', '.join(missing)}:" in said
