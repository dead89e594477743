"""Filters that find a scheduler's command line and its version.

Pure functions of the texts of `systemctl show`, environment files, a static pod's manifest and
/proc.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

# kube-scheduler reads v1 from 1.25 on and v1beta3 from 1.23 to 1.28 (KEP-785,
# https://www.kubernetes.dev/resources/keps/785/); the Policy went with 1.23
# (https://kubernetes.io/docs/reference/scheduling/policies/).
FIRST_WITH_V1 = 25
FIRST_WITHOUT_POLICY = 23
GROUP = "kubescheduler.config.k8s.io"


def properties(shown: str) -> dict[str, list[str]]:
    """Return the output of `systemctl show`: each property with its values, in order."""
    found: dict[str, list[str]] = {}
    for line in shown.splitlines():
        name, _, value = line.partition("=")
        found.setdefault(name, []).append(value)
    return found


def program(shown: str) -> str:
    """Return the path of the program that a unit starts; empty if it says none."""
    match = re.search(r"path=(\S+) ;", " ".join(properties(shown).get("ExecStart", [])))
    return match[1] if match else ""


def environment_files(shown: str) -> list[str]:
    """Return the paths of a unit's environment files."""
    lines = properties(shown).get("EnvironmentFiles", [])
    return [line.partition(" (")[0] for line in lines if line]


def words(shown: str, files: Sequence[str] = ()) -> list[str]:
    """Return the command line that a unit will start, with its variables replaced.

    A variable that isn't found stays as it is written.

    Args:
        shown: the properties ExecStart and Environment, as `systemctl show` prints them.
        files: the unit's environment files, in their order; they go before Environment.
    """
    environment: dict[str, str] = {}
    for text in (*properties(shown).get("Environment", []), *files):
        environment.update(_assignments(text))
    found: list[str] = []
    for line in properties(shown).get("ExecStart", []):
        match = re.search(r"argv\[\]=(.*?) ; ignore_errors=", line)
        for word in match[1].split() if match else []:
            found += _expanded(word, environment)
    return found


def _assignments(text: str) -> dict[str, str]:
    """Return NAME=VALUE of each line or word; comments and unreadable ones are left out."""
    joined = re.sub(r"\\\n", " ", text)
    found: dict[str, str] = {}
    for line in joined.splitlines():
        if re.match(r"\s*([#;]|$)", line):
            continue
        try:
            said = shlex.split(line, posix=True)
        except ValueError:
            continue
        found.update(word.split("=", 1) for word in said if "=" in word)
    return found


def _expanded(word: str, environment: Mapping[str, str]) -> list[str]:
    """Replace variables as systemd does: `$NAME` alone becomes words, `${NAME}` a part of one."""
    alone = re.fullmatch(r"\$(?:(\w+)|{(\w+)})", word)
    if alone and alone[1]:
        return environment[alone[1]].split() if alone[1] in environment else [word]
    return [re.sub(r"\${(\w+)}", lambda found: environment.get(found[1], found[0]), word)]


def flag(command: Sequence[str], name: str) -> str:
    """Return a flag's value on a command line, the last where it stands twice; empty for none."""
    value = ""
    for word, after in zip(command, [*command, ""][1:], strict=True):
        if word == name:
            value = after
        elif word.startswith(f"{name}="):
            value = word.partition("=")[2]
    return value.strip("\"'")


def flag_of_unit(shown: str, files: Sequence[str], running: str, name: str) -> str:
    """Return the value of a flag of a unit's scheduler; empty for none.

    Args:
        shown: the unit, as for `words`.
        files: its environment files, as for `words`.
        running: /proc/PID/cmdline of its main process, which shows a wrapper's program.
        name: the flag, `--config` for instance.
    """
    said = flag(words(shown, files), name)
    wrapped = not _is_scheduler(program(shown)) or said.startswith("$")
    return (flag(running.split("\0"), name) or said) if wrapped else said


def trial_of_unit(shown: str, files: Sequence[str], running: str) -> list[str]:
    """Return the command line of a unit's scheduler without its file; empty where none is known.

    Args:
        shown: the unit, as for `words`.
        files: its environment files, as for `words`.
        running: /proc/PID/cmdline of its main process, which shows a wrapper's program.
    """
    command = [word.strip("\"'") for word in words(shown, files)]
    if _is_scheduler(program(shown)) and not any(word.startswith("$") for word in command):
        return [program(shown), *_without_file(command[1:])]
    ran = [word for word in running.split("\0") if word]
    if ran and ran[0].startswith("/") and _is_scheduler(ran[0]):
        return [ran[0], *_without_file(ran[1:])]
    return []


def trial_of_pod(manifest: Mapping[str, Any], processes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the same of a static pod's scheduler that runs; its program is in no folder of ours.

    It is run as the host's root, and so is the process that it is taken from.

    Args:
        manifest: the Pod; its process is the one with its command line.
        processes: the host's own, as the module kube_scheduler_processes finds them.
    """
    container = _container(manifest)
    command = [*(container.get("command") or []), *(container.get("args") or [])]
    uid = str((manifest.get("metadata") or {}).get("uid") or "")
    for each in processes:
        is_pods = each["pod"] == uid if uid else each["pod"]
        if command and is_pods and each["root"] and each["command"] == command:
            return [f"/proc/{each['pid']}/exe", *_without_file(command[1:])]
    return []


def is_after(after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Say whether the kubelet has started another scheduler between two looks.

    Where the host's own was seen, no other process counts: users begin theirs when they like.

    Args:
        after: what the module kube_scheduler_processes has found.
        before: what it had found before.
    """
    old, new = ({each["pid"] for each in look["processes"]} for look in (before, after))
    return bool(new - old if old else {*new, *after["others"]} - {*before["others"]})


def _is_scheduler(path: str) -> bool:
    return path.rpartition("/")[2] == "kube-scheduler"


def _without_file(flags: Sequence[str]) -> list[str]:
    before = ["", *flags]
    return [
        word
        for word, last in zip(flags, before, strict=False)
        if last != "--config" and word.partition("=")[0] != "--config"
    ]


def minor_version(said: str) -> int:
    """Return the 24 of "Kubernetes v1.24.17" or "…/kube-scheduler:v1.24.17"; 0 for none."""
    match = re.search(r"\bv1\.([0-9]{1,3})\b", said)
    return int(match[1]) if match else 0


def image(manifest: Mapping[str, Any]) -> str:
    """Return the image of the container that runs kube-scheduler; empty for none."""
    return str(_container(manifest).get("image", ""))


def flag_of_manifest(manifest: Mapping[str, Any], name: str) -> str:
    """Return the value of a flag of a static pod's scheduler; empty for none."""
    container = _container(manifest)
    return flag([*(container.get("command") or []), *(container.get("args") or [])], name)


def _container(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    for container in (manifest.get("spec") or {}).get("containers") or []:
        if _is_scheduler((container.get("command") or [""])[0]):
            found: Mapping[str, Any] = container
            return found
    return {}


def api_version(minor: int) -> str:
    """Return the apiVersion that a kube-scheduler 1.MINOR reads; empty where none is known."""
    if minor < FIRST_WITHOUT_POLICY:
        return ""
    return f"{GROUP}/v1" if minor >= FIRST_WITH_V1 else f"{GROUP}/v1beta3"


def form(minor: int) -> str:
    """Return the kind of file that a kube-scheduler 1.MINOR reads; empty where MINOR is 0."""
    if not minor:
        return ""
    return "configuration" if minor >= FIRST_WITHOUT_POLICY else "policy"


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {
            "kube_scheduler_api_version_of": api_version,
            "kube_scheduler_environment_files": environment_files,
            "kube_scheduler_flag_of_manifest": flag_of_manifest,
            "kube_scheduler_flag_of_unit": flag_of_unit,
            "kube_scheduler_form_of": form,
            "kube_scheduler_image": image,
            "kube_scheduler_is_after": is_after,
            "kube_scheduler_minor_version": minor_version,
            "kube_scheduler_program": program,
            "kube_scheduler_properties": properties,
            "kube_scheduler_trial_of_pod": trial_of_pod,
            "kube_scheduler_trial_of_unit": trial_of_unit,
        }
