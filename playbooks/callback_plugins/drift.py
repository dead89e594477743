"""Collects what a run in check mode would change, for playbooks/drift.yml.

Ansible loads it with every playbook of this folder; from the collection it has to be enabled. With
any other playbook it does nothing.
"""

import json
import os
import pathlib
import tempfile
from typing import Any, Final

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: drift
type: aggregate
short_description: Differences between hosts and what site.yml lays out, as a table and as JSON
description: Works with the playbook drift.yml alone, which reads them from a file.
requirements: [check mode]
"""

PLAYBOOK: Final = "drift.yml"
REPORT: Final = "GPUSTACK_DRIFT_REPORT"  # read by the playbook's last play
# Of a task's arguments, the first that is there.
_NAMES: Final = ("dest", "path", "name", "src", "argv")
_MOST: Final = 200  # characters of a cell


class CallbackModule(CallbackBase):
    """Writes each difference down as soon as it is found: a run may be stopped at any moment."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "drift"

    def __init__(self) -> None:
        super().__init__()
        self._file: pathlib.Path | None = None
        self._report: pathlib.Path | None = None
        self._found: list[dict[str, str]] = []

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Begin, with drift.yml alone."""
        if os.path.basename(playbook._file_name) == PLAYBOOK:
            descriptor, name = tempfile.mkstemp(prefix="gpustack-drift-", suffix=".json")
            os.close(descriptor)
            self._file = pathlib.Path(name)
            os.environ[REPORT] = name
            self._write(self._file)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Read where the JSON goes: a play sees what --extra-vars say."""
        told = play.get_variable_manager().get_vars(play=play).get("drift_report")
        self._report = pathlib.Path(told) if told else None

    def v2_runner_on_ok(self, result: Any) -> None:
        """Note a task that would change something."""
        if result._result.get("changed"):
            self._note(result, "")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Note a check that failed, and what can't be compared."""
        if not ignore_errors and result._task._role:  # not the playbook's own verdict
            self._note(result, str(result._result.get("msg", "it failed")))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Note a host that doesn't answer."""
        self._note(result, "the host doesn't answer")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Print the table, and write the JSON."""
        del stats
        if self._file is None:
            return
        rows = [("HOST", "ROLE", "DIFFERS")]
        rows += [(each["host"], each["role"], each["differs"]) for each in self._found]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        for host, role, differs in rows if self._found else ():
            self._display.display(f"{host:<{widths[0]}}  {role:<{widths[1]}}  {differs}")
        if self._report is not None:
            self._write(self._report)
        self._file.unlink(missing_ok=True)

    def _note(self, result: Any, fault: str) -> None:
        if self._file is None:
            return
        task = result._task
        parts = result._result.get("results") or _objects(result._result) or [result._result]
        differing = [_what(part, task.args) for part in parts if part.get("changed") or fault]
        for what in dict.fromkeys(differing):
            words = (result.task_name or task.action, what, fault)
            told = ": ".join(word for word in words if word)
            role = task._role.get_name() if task._role else ""
            line = " ".join(told.split())[:_MOST]
            self._found.append({"host": result._host.get_name(), "role": role, "differs": line})
        self._write(self._file)

    def _write(self, file: pathlib.Path) -> None:
        file.write_text(json.dumps(self._found, indent=2) + "\n")


def _objects(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what kubernetes.core.k8s says of each of several objects; nothing for another task."""
    found = answer.get("result")
    return list(found.get("results") or ()) if isinstance(found, dict) else []


def _what(part: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Return what a task would change: its file, unit or object, never a content.

    A content may be secret.
    """
    if part.get("_ansible_no_log"):
        return ""
    if isinstance(one := part.get("result"), dict) and "kind" in one:
        return f"{one['kind']} {one['metadata']['name']}"
    told = part.get("invocation", {}).get("module_args") or arguments
    found = next((told[name] for name in _NAMES if told.get(name)), "")
    return " ".join(map(str, found)) if isinstance(found, list) else str(found)
