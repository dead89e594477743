"""Finds the API servers and schedulers that are the host's own, and no user's."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kube_scheduler_processes
short_description: Find the API servers and schedulers that are the host's own
description:
  - Whoever may have a pod on a host, or an account there, may start a process of any name and
    command line. The kernel says whose it is by its cgroup. That of a static pod, or of a unit of
    the system (root's, or one with the program's name), is the host's.
  - Returns C(processes), those of the host, each with its C(pid), C(program), C(command), C(root)
    (whether it is root's) and C(pod) (its UID, empty for a unit's), and C(others), PID to program
    of those with such a name that are not.
  - Changes nothing.
options:
  programs: {description: The names of the programs., elements: str, required: true, type: list}
  static_pod_uid: {default: "", description: The UID that a static pod's file names., type: str}
  proc_path: {default: /proc, description: The proc file system., type: path}
"""

# A pod's cgroup: `pod<UID>`, or with the systemd driver `kubepods-burstable-pod<UID>.slice` and `_`
# for each `-`. The first on a path is the kubelet's; below it a container may make its own.
_POD = re.compile(r"[/-]pod([0-9a-f_-]{32,36})(?:\.slice)?(?:[/:]|$)")
# The UID that the kubelet makes for a static pod whose file names none: a hash. Those of the API
# server have dashes, so that no user's pod has one like it.
_HASH = re.compile(r"[0-9a-f]{32}")
# A container's cgroup ends otherwise.
_UNIT = re.compile(r"(?:.*/)?[^/]+\.slice/([^/]+\.service)")
# Below it any account makes units and slices of its own, with any names.
_USERS = "/user.slice/"
_MOST_BYTES = 1 << 17  # of a command line; the kernel takes no longer word (MAX_ARG_STRLEN)


def processes(
    proc_path: pathlib.Path, programs: Sequence[str], static_pod_uid: str = ""
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the host's own processes of these names, and others' PIDs with theirs, by PID."""
    found: list[dict[str, Any]] = []
    others: dict[str, str] = {}
    for pid in sorted(int(entry) for entry in os.listdir(proc_path) if entry.isdigit()):
        for each in _of_name(proc_path / str(pid), programs, static_pod_uid):
            if isinstance(each, str):
                others[str(pid)] = each
            else:
                found.append({"pid": str(pid), **each})
    return found, others


def _of_name(
    process: pathlib.Path, programs: Sequence[str], static_pod_uid: str
) -> Iterator[dict[str, Any] | str]:
    """Yield what a process is, its name where it is another's; nothing for one that ended."""
    try:
        program = _text(process / "comm").strip()
        if program not in programs:
            return
        cgroups = _cgroups(process)
        root = _real_user(_text(process / "status")) == "0"
        pod = _pod(cgroups)
        is_static = pod and (pod == static_pod_uid or _HASH.fullmatch(pod))
        if not is_static and not _is_of_unit(cgroups, program, root=root):
            yield program
            return
        # Last: a user could keep whoever reads the command line of its process waiting.
        command = _text(process / "cmdline").rstrip("\0").split("\0")
        yield {"program": program, "command": command, "root": root, "pod": pod}
    except (FileNotFoundError, ProcessLookupError):
        return


def _cgroups(process: pathlib.Path) -> str:
    """Return the text of a process's cgroups; empty where they say nothing of the host's own."""
    try:
        text = _text(process / "cgroup")
    except (FileNotFoundError, ProcessLookupError):
        raise
    except OSError:
        return ""  # an account made cgroups so deep that the kernel doesn't tell the path
    return "" if _USERS in text else text


def _pod(cgroups: str) -> str:
    """Return the UID of the pod that a process is in; empty for none or more than one."""
    pods = {match[1].replace("_", "-") for match in map(_POD.search, _paths(cgroups)) if match}
    return pods.pop() if len(pods) == 1 else ""


def _is_of_unit(cgroups: str, program: str, *, root: bool) -> bool:
    """Say whether a unit of the system has started it; one like cron's runs users' programs too."""
    paths = _paths(cgroups)
    if any("kubepods" in path or _POD.search(path) for path in paths):
        return False
    units = [match[1] for match in map(_UNIT.fullmatch, paths) if match]
    return bool(units) and (root or program.removeprefix("kube-") in units[0])


def _paths(cgroups: str) -> list[str]:
    return [line.split(":", 2)[-1] for line in cgroups.splitlines()]


def _real_user(status: str) -> str:
    """Return the real user's number: a program with the set-user-ID bit has its caller's."""
    match = re.search(r"(?m)^Uid:\s+(\d+)", status)
    return match[1] if match else ""


def _text(path: pathlib.Path) -> str:
    # any account may have made cgroups of its own, with any bytes for a name
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_BYTES)


def main() -> None:
    """Run the module."""
    options = {
        "programs": {"type": "list", "elements": "str", "required": True},
        "static_pod_uid": {"type": "str", "default": ""},
        "proc_path": {"type": "path", "default": "/proc"},
    }
    module = AnsibleModule(options, supports_check_mode=True)
    try:
        found, others = processes(
            pathlib.Path(module.params["proc_path"]),
            module.params["programs"],
            module.params["static_pod_uid"],
        )
    except OSError as error:
        module.fail_json(msg=f"The host's processes can't be read: {error}")
    module.exit_json(processes=found, others=others)


if __name__ == "__main__":
    main()
