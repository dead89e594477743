"""Collects what a report of a fault needs of one host, and nothing else.

The rule is an allow list. A value is kept where its form is known: a number, a date, a version, a
word of a fixed list. Free text (journals, pages, settings) keeps the words that stand in gpustack's
own sources, as installed on the host, and the names that the caller knows; each other word becomes
a mark. So what a tenant or an operator wrote is never in it, whatever it looks like.
"""

from __future__ import annotations

import contextlib
import glob
import http.client
import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from ansible.module_utils import support_texts as texts
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.support_texts import MARK, LeftOut

DOCUMENTATION = r"""
module: support_host
short_description: Collect states and logs of gpustack on a host, without secrets
description:
  - Returns C(files), name to text, and C(left_out), each with C(what) and C(why). Changes nothing.
  - Nothing that it reads can keep it, or fill memory. What can't be read is named.
options:
  parts: {type: list, elements: str, required: true, description: agent or extender or both.}
  names: {type: list, elements: str, default: [], description: Names that texts may have.}
  root: {type: path, default: /, description: Where the host's files begin.}
  environment: {type: path, required: true, description: Of gpustack.}
  state: {type: path, required: true, description: Folder of the agent's state.}
  agent: {type: str, required: true, description: HOST:PORT of the agent's pages.}
  extender: {type: str, required: true, description: HOST:PORT of the extender's.}
  file_bytes: {type: int, required: true, description: The most of one file.}
  lines: {type: int, required: true, description: The most lines of a journal.}
  seconds: {type: int, required: true, description: The longest that one thing may take.}
"""

_UNITS = {
    "agent": ["gpustack-agent.service", "gpustack-device.service", "gpustack-mount.service"],
    "extender": [
        "gpustack-extender.service",
        "gpustack-certificates.service",
        "gpustack-token.service",
    ],
}
_OTHER_UNITS = (
    "kubelet.service", "containerd.service", "crio.service", "docker.service",
    "kube-scheduler.service", "nvidia-persistenced.service", "nvidia-fabricmanager.service",
)  # fmt: skip
_WORD = r"[a-z][a-z-]{0,30}"
# of systemd; never Environment= or a command line
_PROPERTIES = {
    "LoadState": _WORD, "ActiveState": _WORD, "SubState": _WORD, "UnitFileState": _WORD,
    "Result": _WORD, "NRestarts": r"\d+", "ExecMainStatus": r"\d+", "MemoryCurrent": r"\d+",
    "ActiveEnterTimestamp": r"[A-Z][a-z]{2} [\d-]{10} [\d:]{8} UTC", "NeedDaemonReload": "yes|no",
}  # fmt: skip
_PATHS = (
    "/etc/gpustack", "/etc/gpustack/agent.yml", "/etc/gpustack/extender.yml",
    "/etc/gpustack/extender.kubeconfig", "/etc/gpustack/pki/ca.key",
    "/etc/gpustack/tokens/gpustack-extender", "/etc/gpustack/tokens/gpustack-scheduler",
    "/etc/gpustack/pki/extender.key", "/etc/gpustack/pki/scheduler/client.key",
    "/etc/gpustack/pki/ca.crt", "/etc/gpustack/pki/extender.crt",
    "/run/gpustack/agent.sock", "/run/gpustack-mount/mount.sock", "/opt/gpustack/venv",
)  # fmt: skip
_SETTING = re.compile(r"^((?:  )*)([a-z_]+):(?: (.*))?$")
_NUMBER = r"[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf|NaN)"
_METRIC = re.compile(rf"^([a-z_]+)(\{{.*\}})? ({_NUMBER})$")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]{7,16})\): (\d{1,3}),")
_CARD = "index,uuid,name,driver_version,memory.total,memory.used,temperature.gpu,mig.mode.current"
_CARD_FORMS = (
    r"\d+", r"GPU-[0-9a-f-]{36}", r"(?:NVIDIA|Tesla|GRID|GeForce|Quadro)[\w -]{0,40}", r"[\d.]+",
    r"\d+|\[N/A\]", r"\d+|\[N/A\]", r"\d+|\[N/A\]", r"Enabled|Disabled|\[N/A\]",
)  # fmt: skip


class Host:
    """What is collected of one host."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Learn the words that texts may have."""
        self._params = params
        self.files: dict[str, str] = {}
        self.left_out: list[dict[str, str]] = []
        self._texts = texts.Texts([*params["names"], *_PATHS])
        packages = self._path(params["environment"], "lib/python3*/site-packages")
        with self._noting("the words of gpustack's own sources"):
            for name in ("gpustack/**/*.py", "gpustack/**/*.json", "extender/**/*.py"):
                self._texts.learn(glob.iglob(f"{packages}/{name}", recursive=True))
        if "agent" in params["parts"]:
            with self._noting("names of pods, of checkpoint.json"):
                self._texts.know(self._names())

    def collect(self) -> None:
        """Read everything, and name what can't be read."""
        parts = self._params["parts"]
        units = [unit for part in parts for unit in _UNITS[part]]
        self._add("host.json", self._about)
        self._add("paths.json", self._stats)
        self._add("units.json", lambda: self._states(units))
        for unit in units:
            self._add(f"{unit}.log", lambda unit=unit: self._journal(unit))
        if "agent" in parts:
            self._add("cards.csv", self._cards)
            self._add("xids.json", self._xids)
        for part in parts:
            self._add(f"{part}.yml", lambda part=part: self._settings(part))
            for page in ("version", "readyz", "metrics"):
                self._add(
                    f"{part}-{page}.txt", lambda part=part, page=page: self._shown(part, page)
                )
        if "extender" in parts:
            self._add("certificates.json", self._certificates)
            self._add("extender-decisions.json", self._decisions)

    def _path(self, *parts: str) -> str:
        return os.path.join(self._params["root"], *(part.lstrip("/") for part in parts))

    @contextlib.contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        try:
            with texts.within(self._params["seconds"]):
                yield
        except (LeftOut, texts.TooLong) as error:
            why = str(error)
        except OSError as error:
            why = error.strerror or type(error).__name__
        except (ValueError, KeyError, TypeError, http.client.HTTPException) as error:
            # without its text, which may have what was read
            why = f"it has another form than ours ({type(error).__name__})"
        else:
            return
        self.left_out.append({"what": what, "why": why})

    def _add(self, name: str, collect: Callable[[], str]) -> None:
        with self._noting(name):
            text, most = collect(), self._params["file_bytes"]
            whole = text.encode()
            if len(whole) > most:
                # the end of a log is its newest part
                text = whole[-most:].decode("utf-8", "ignore").partition("\n")[2]
                why = f"only its last {len(text.encode())} of {len(whole)} bytes are here"
                self.left_out.append({"what": name, "why": why})
            self.files[name] = text

    def _names(self) -> Iterator[str]:
        """Yield the names of pods in the agent's checkpoint."""
        text = texts.read(self._path(self._params["state"], "checkpoint.json")).decode()
        for key in ("uid", "namespace", "name"):
            yield from re.findall(rf'"{key}": ?"([A-Za-z0-9.-]{{1,253}})"', text)

    def _about(self) -> str:
        release = texts.read(self._path("etc/os-release")).decode("utf-8", "replace")
        system = dict(re.findall(r'^(ID|VERSION_ID)="?([a-z0-9._-]{1,20})"?$', release, re.M))
        state = os.statvfs(self._path(os.path.dirname(self._params["state"])))
        driver = self._path("sys/module/nvidia/version")
        loaded = texts.read(driver).decode().strip() if os.path.exists(driver) else ""
        asked = {
            "kubelet": "--version", "containerd": "--version", "systemctl": "--version",
            "openssl": "version",
        }  # fmt: skip
        return _json({
            "time": texts.stamp(time.time()), "kernel": platform.release(),
            "architecture": platform.machine(), "python": platform.python_version(),
            "system": system, "driver": loaded if re.fullmatch(r"[\d.]{3,20}", loaded) else MARK,
            "versions": {name: texts.version(name, flag) for name, flag in asked.items()},
            "cgroup_v2": os.path.exists(self._path("sys/fs/cgroup/cgroup.controllers")),
            "free_bytes": state.f_bavail * state.f_frsize, "free_inodes": state.f_favail,
        })  # fmt: skip

    def _stats(self) -> str:
        """Say who may read our files, and how long they are."""
        state, found = self._params["state"], {}
        ours = [f"{state}/{name}" for name in ("checkpoint.json", "health.json", "containers")]
        for path in (*_PATHS, state, *ours):
            with contextlib.suppress(FileNotFoundError):  # found says which are there
                one = os.stat(self._path(path))
                owner = f"{one.st_uid}:{one.st_gid}"
                found[path] = [oct(one.st_mode), owner, one.st_size, texts.stamp(one.st_mtime)]
        return _json(found)

    def _states(self, units: list[str]) -> str:
        asked = [f"--property={name}" for name in ("Id", *_PROPERTIES, "StatusText")]
        states = {}
        for block in texts.run("systemctl", "show", *asked, *units, *_OTHER_UNITS).split("\n\n"):
            said = dict(line.partition("=")[::2] for line in block.splitlines())
            unit = said.get("Id")
            if unit not in (*units, *_OTHER_UNITS):
                continue
            states[unit] = {
                name: said[name] if re.fullmatch(form, said[name]) else MARK
                for name, form in _PROPERTIES.items()
                if said.get(name)
            }
            if unit in units and said.get("StatusText"):
                states[unit]["StatusText"] = self._texts.plain(said["StatusText"])
        return _json(states)

    def _entries(self, *which: str) -> Iterator[tuple[str, str]]:
        """Yield a journal's times and messages, the oldest first."""
        # the newest first, which are kept where there are too many
        lines = texts.run("journalctl", "--no-pager", "--quiet", "--reverse", "--output=json",
                    "--output-fields=MESSAGE", *which).splitlines()  # fmt: skip
        for line in reversed(lines):
            with contextlib.suppress(ValueError, KeyError, TypeError):  # cut, or no text
                entry = json.loads(line)
                yield texts.stamp(int(entry["__REALTIME_TIMESTAMP"]) / 1e6), str(entry["MESSAGE"])

    def _journal(self, unit: str) -> str:
        if not self._texts.own:
            raise LeftOut("without gpustack's environment its own words can't be told")
        entries = self._entries(f"--unit={unit}", f"--lines={self._params['lines']}")
        return "".join(f"{when} {self._texts.plain(text)}\n" for when, text in entries)

    def _xids(self) -> str:
        """Say which faults the driver named; not the process, whose name is a tenant's."""
        found = (
            (when, _XID.match(text)) for when, text in self._entries("--dmesg", "--lines=9999")
        )
        return _json([[when, xid[1], int(xid[2])] for when, xid in found if xid])

    def _cards(self) -> str:
        asked = (f"--query-gpu={_CARD}", "--format=csv,noheader,nounits")
        rows = [[value.strip() for value in row.split(",")] for row in
                texts.run("nvidia-smi", *asked).splitlines()]  # fmt: skip
        kept = [
            ",".join(
                value if re.fullmatch(form, value) else MARK
                for value, form in zip(row, _CARD_FORMS, strict=True)
            )
            for row in rows
        ]
        return "\n".join([_CARD, *kept, ""])

    def _settings(self, part: str) -> str:
        """Return a configuration of ours, a setting a line, as our roles render it."""
        kept = []
        for line in texts.read(self._path(f"etc/gpustack/{part}.yml")).decode().splitlines():
            if found := _SETTING.match(line):
                value = found[3] or ""
                if not re.fullmatch(_NUMBER, value):
                    value = self._texts.plain(value)
                kept.append(f"{found[1]}{self._texts.plain(found[2])}: {value}")
        return "\n".join([*kept, ""])

    def _shown(self, part: str, page: str) -> str:
        status, text = texts.get(self._params[part], page)
        if page == "metrics":
            metrics = filter(None, map(_METRIC.match, text.splitlines()))
            text = "".join(
                f"{self._texts.plain(found[1] + (found[2] or ''))} {found[3]}\n"
                for found in metrics
            )
        else:
            text = self._texts.plain(text)
        return f"{status}\n{text}"

    def _decisions(self) -> str:
        _, text = texts.get(self._params["extender"], "v1/decisions")
        return _json(self._texts.reduced(json.loads(text)))

    def _certificates(self) -> str:
        dates = {}
        for name in ("ca.crt", "extender.crt", "scheduler/ca.crt", "scheduler/client.crt"):
            path = self._path("etc/gpustack/pki", name)
            said = texts.run("openssl", "x509", "-noout", "-dates", "-in", path)
            dates[name] = re.findall(r"^not\w+=([A-Z][a-z]{2} [\d: ]{16,17} GMT)$", said, re.M)
        return _json(dates)


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Run as Ansible's module."""
    words = {"type": "list", "elements": "str"}
    options: dict[str, dict[str, Any]] = {
        "parts": {**words, "required": True},
        "names": {**words, "default": []},
        "root": {"type": "path", "default": "/"},
        **{name: {"type": "path", "required": True} for name in ("environment", "state")},
        **{name: {"type": "str", "required": True} for name in ("agent", "extender")},
        **{name: {"type": "int", "required": True} for name in ("file_bytes", "lines", "seconds")},
    }
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    host = Host(module.params)
    host.collect()
    module.exit_json(changed=False, files=host.files, left_out=host.left_out)


if __name__ == "__main__":
    main()
