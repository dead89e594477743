"""Finds the users of gpustack's files on a host, from the host's own files."""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: gpustack_users
short_description: Find the pods that hold cards of a host, and the builds of the hook in use
description:
  - Needs no API server. C(pods) are those with a process that has files of C(state_path) mounted,
    and those that the agent's records or the kubelet's checkpoint know and that the kubelet still
    has a folder for. C(hooks) are the folders below C(state_path)/hooks that a process has mounted,
    or that the kubelet would mount when it starts a container again.
  - Changes nothing.
  - Of a pod that was deleted a moment ago the kubelet still has a folder. While pods are known by
    such folders alone, the module looks again for C(settle_seconds).
options:
  state_path: {type: path, required: true, description: The agent's state folder.}
  kubelet_path: {type: path, required: true, description: The kubelet's folder.}
  domain: {type: str, required: true, description: Domain of our resources.}
  pod_logs_path: {type: path, default: /var/log/pods, description: The kubelet's folders of logs.}
  proc_path: {type: path, default: /proc, description: The proc file system.}
  settle_seconds: {type: float, default: 0, description: How long to look again.}
"""

# The kubelet tidies up every 2 s (its housekeeping period).
_LOOK_SECONDS = 0.5
# A process that has ended: no such file, no such process, or (of a zombie) no mount namespace.
_GONE = (errno.ENOENT, errno.ESRCH, errno.EINVAL)
# A pod's UID as cgroups write it: with `_` by the systemd driver, without either of a static pod.
_CGROUP_UID = re.compile(r"pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})\b")
# A character that the kernel writes by its number: a blank, a tab, a line feed, a backslash.
_ESCAPED = re.compile(r"\\([0-7]{3})")
# The characters of a name in our folders; protobuf's tags and lengths of short fields are others.
_NAME = rb"([A-Za-z0-9][A-Za-z0-9._+-]*)"


class Users:
    """Looks once, when it is made; `pods` and `hooks` hold its findings."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Look.

        Raises:
            OSError: root can't read a file that it should.
            ValueError: a file isn't laid out as agent or kubelet write it.
        """
        self._state: str = params["state_path"]
        self._kubelet: str = params["kubelet_path"]
        self._domain: str = params["domain"]
        self._logs: str = params["pod_logs_path"]
        self._proc: str = params["proc_path"]
        self._known: dict[str, str] = {}
        self._found: set[str] = set()
        self.living = False  # whether a process has files of ours mounted
        self.hooks: set[str] = set()
        self._ours = {self._place(kind): kind for kind in ("hooks", "driver", "containers")}
        self._ask_records()
        self._ask_kubelet()
        self._ask_processes()

    @property
    def pods(self) -> list[str]:
        """Names as NAMESPACE/NAME; a pod without one has its UID or its process instead."""
        logged = {folder.rpartition("_")[2]: folder for folder in _entries(self._logs)}
        return sorted(self._name(uid, logged) for uid in self._found)

    def _name(self, uid: str, logged: dict[str, str]) -> str:
        if uid in self._known:
            return self._known[uid]
        if uid in logged:  # NAMESPACE_NAME_UID
            return "/".join(logged[uid].split("_")[:2])
        return uid if uid.startswith("process ") else f"the pod with UID {uid}"

    def _ask_records(self) -> None:
        path = os.path.join(self._state, "checkpoint.json")
        try:
            records = _records(path)
            self._known = {each["uid"]: f"{each['namespace']}/{each['name']}" for each in records}
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: not the agent's records ({error!r})") from error
        self._found.update(filter(self._is_kept, self._known))

    def _ask_kubelet(self) -> None:
        path = os.path.join(self._kubelet, "device-plugins", "kubelet_internal_checkpoint")
        document = _json(path)
        try:
            entries = (document["Data"]["PodDeviceEntries"] or []) if document is not None else []
            for entry in entries:
                ours = entry["ResourceName"].startswith(f"{self._domain}/vcuda-")
                # the file keeps pods that are gone until the next Allocate
                if ours and self._is_kept(entry["PodUID"]):
                    self._found.add(entry["PodUID"])
                    self._ask_answer(base64.b64decode(entry["AllocResp"] or ""))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: not a kubelet's checkpoint ({error!r})") from error

    def _ask_answer(self, answer: bytes) -> None:
        folder = re.escape(os.path.join(self._state, "hooks", "").encode())
        self.hooks.update(name.decode() for name in re.findall(folder + _NAME, answer))

    def _ask_processes(self) -> None:
        seen: set[tuple[str, ...]] = set()  # these see the same mounts
        for pid in filter(str.isdigit, os.listdir(self._proc)):
            try:
                view = self._view(pid)
                if view not in seen:
                    self._ask_process(pid)
                    seen.add(view)  # now: it may have ended, and others see the same
            except OSError as error:
                if error.errno not in _GONE:
                    raise

    def _view(self, pid: str) -> tuple[str, ...]:
        """Return what tells processes apart that see different mounts."""
        links = (os.path.join(self._proc, pid, name) for name in ("ns/mnt", "root"))
        try:
            return tuple(map(os.readlink, links))
        # Root may not, in a container; and whoever may chroot has a root that is too deep to name.
        except OSError:
            return (pid,)  # its mounts are for everyone to read, unless it has ended

    def _ask_process(self, pid: str) -> None:
        mounted = set(self._mounted(pid))
        self.hooks.update(name for kind, name in mounted if kind == "hooks")
        if mounted:
            self.living = True
            match = _CGROUP_UID.search(self._cgroup(pid))
            name = match.group(1).replace("_", "-") if match else ""
            self._found.add(name or f"process {pid} ({self._read(pid, 'comm').strip()})")

    def _cgroup(self, pid: str) -> str:
        try:
            return self._read(pid, "cgroup")
        except OSError:
            return ""  # its path is too long, or the process has ended: then it has no name either

    def _mounted(self, pid: str) -> Iterator[tuple[str, str]]:
        """Yield kind and name of each folder of ours that a process has mounted."""
        for device, root, _ in self._mounts(pid):
            for (our_device, folder), kind in self._ours.items():
                if device == our_device and root.startswith(f"{folder}/"):
                    name = root[len(folder) + 1 :].split("/", 1)[0]
                    # the kernel goes on to name one that was removed meanwhile
                    if os.path.isdir(os.path.join(self._state, kind, name)):
                        yield kind, name

    def _place(self, kind: str) -> tuple[str, str]:
        """Return the file system of a folder of ours, and its path there, as mountinfo has them.

        Pods have volumes of any name: the end of a path is no sign of ours.
        """
        path = os.path.realpath(os.path.join(self._state, kind))
        above = [each for each in self._mounts("self") if _is_below(path, each[2])]
        if not above:
            raise ValueError(f"{self._proc}/self/mountinfo: no file system has {path}")
        device, root, point = max(reversed(above), key=lambda each: len(each[2]))
        return device, os.path.normpath(os.path.join(root, os.path.relpath(path, point)))

    def _mounts(self, pid: str) -> Iterator[tuple[str, str, str]]:
        """Yield each mount's file system, its root there and its mount point."""
        # A line at a time: a tenant has 100 000 mounts (fs.mount-max), each with a path of 4 KB.
        # Mount points have any character of their users' choice but a line feed.
        with self._open(pid, "mountinfo") as lines:
            for line in lines:
                _, _, device, root, point, _ = line.split(" ", 5)
                yield device, _unescaped(root), _unescaped(point)

    def _is_kept(self, uid: str) -> bool:
        """Say whether the kubelet still has the pod; it removes a pod's folder last."""
        return os.path.isdir(os.path.join(self._kubelet, "pods", uid))

    def _read(self, pid: str, name: str) -> str:
        with self._open(pid, name) as file:
            return file.read()

    def _open(self, pid: str, name: str) -> TextIO:
        path = os.path.join(self._proc, pid, name)
        return open(path, encoding="utf-8", errors="replace", newline="\n")


def _records(path: str) -> Iterable[dict[str, Any]]:
    """Return the agent's records: of version 2, a line a change, or of version 1, a document.

    The host's Python, which runs this, has no package of the agent's. The tests write the records
    with the agent's own code (gpustack/adapters/checkpoint.py).
    """
    text = _text(path)
    if text is None:
        return []
    if text.startswith("{"):
        pods: list[dict[str, Any]] = _parsed(path, text)["data"]["pods"]
        return pods
    *lines, rest = text.split("\n")
    changes = [_change(path, line) for line in lines]
    if len(changes) > 1 and changes[-1] is None and not rest:
        changes.pop()  # torn by a crash, before it counted
    if not changes or None in changes or changes[0]["version"] != 2:
        raise ValueError(f"{path}: not the records of an agent that this role knows")
    found: dict[str, dict[str, Any]] = {}
    for change in changes[1:]:
        if "put" in change:
            found[change["put"]["uid"]] = change["put"]
        else:
            del found[change["remove"]]
    return found.values()


def _change(path: str, line: str) -> Any:
    """Return a line's JSON, None where the checksum before it doesn't fit."""
    checksum, _, text = line.partition(" ")
    return _parsed(path, text) if checksum == f"{zlib.crc32(text.encode()):08x}" else None


def _json(path: str) -> Any:
    """Return a file's document, None where there is no file."""
    text = _text(path)
    return None if text is None else _parsed(path, text)


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _parsed(path: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _unescaped(path: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), path)


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def main() -> None:
    """Run as Ansible's module."""
    options: dict[str, dict[str, Any]] = {
        "state_path": {"type": "path", "required": True},
        "kubelet_path": {"type": "path", "required": True},
        "domain": {"type": "str", "required": True},
        "pod_logs_path": {"type": "path", "default": "/var/log/pods"},
        "proc_path": {"type": "path", "default": "/proc"},
        "settle_seconds": {"type": "float", "default": 0},
    }
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    deadline = time.monotonic() + module.params["settle_seconds"]
    try:
        users = Users(module.params)
        while users.pods and not users.living and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            users = Users(module.params)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"the users of {module.params['state_path']} are unknown: {error}")
    module.exit_json(changed=False, pods=users.pods, hooks=sorted(users.hooks))


if __name__ == "__main__":
    main()
