"""Filters that make a scheduler's static pod read our file, and filters that undo this.

Pure functions of parsed YAML. `with_flags` is a fixed point, which is what makes the role's second
run quiet.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

CHECKSUM_ANNOTATION = "gpustack.io/scheduler-config-sha256"
VOLUME = "gpustack-scheduler-config"
CERTIFICATES_VOLUME = "gpustack-scheduler-certificates"


def copied(value: Any) -> Any:
    """Return a copy of parsed YAML.

    copy.deepcopy copies Ansible's templar, with all variables, for each container in it.
    """
    if isinstance(value, Mapping):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


def with_flags(
    manifest: Mapping[str, Any],
    flags: Sequence[str],
    path: str,
    content: str,
    certificates: str = "",
) -> dict[str, Any]:
    """Return a static pod's manifest whose scheduler reads the file at `path`.

    The kubelet restarts a static pod when its manifest changes, not when a mounted file does; so
    the file's checksum stands in an annotation.

    Args:
        manifest: the Pod as it stands on the host.
        flags: `--name=value`; each replaces a flag of the same name.
        path: the file, mounted read-only at the same path.
        content: the file's content.
        certificates: the folder with the scheduler's certificate, mounted in the same way; empty
            without TLS.

    Raises:
        ValueError: the manifest has no container that runs kube-scheduler, or that one reads or
            mounts another file, which would be hidden.
    """
    result: dict[str, Any] = copied(manifest)
    container = scheduler_container(result["spec"])
    _check_flags(container, flags, path)
    metadata = result.setdefault("metadata", {})
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        CHECKSUM_ANNOTATION: hashlib.sha256(content.encode()).hexdigest(),
    }
    # kubeadm's patch gives them as arguments, which leave its own command as it is.
    if not set(flags) <= set(_words(container)):
        container["command"] = [*_without(container["command"], flags), *flags]
    mount(result["spec"], VOLUME, path, "File")
    mount(result["spec"], CERTIFICATES_VOLUME, certificates, "Directory")
    return result


def without_flags(
    manifest: Mapping[str, Any], kept: Mapping[str, Any], flags: Sequence[str]
) -> dict[str, Any]:
    """Return a manifest without the fields of `with_flags`; other changes stay.

    Args:
        manifest: the Pod as it stands on the host; one that isn't ours is returned as it is.
        kept: the same as it stood before us: its flags of these names come back.
        flags: all flags that `with_flags` may have set.
    """
    result: dict[str, Any] = copied(manifest)
    if not is_ours(manifest):
        return result
    del result["metadata"]["annotations"][CHECKSUM_ANNOTATION]
    if not result["metadata"]["annotations"] and "annotations" not in kept["metadata"]:
        del result["metadata"]["annotations"]
    container = scheduler_container(result["spec"])
    kept_container = scheduler_container(kept["spec"])
    container["command"] = _put_back(container["command"], kept_container["command"], flags)
    # There kubeadm's patch put them.
    arguments = _put_back(container.pop("args", []), kept_container.get("args", []), flags)
    if arguments or "args" in kept_container:
        container["args"] = arguments
    mount(result["spec"], VOLUME, "", "")
    mount(result["spec"], CERTIFICATES_VOLUME, "", "")
    for owner, key, old in (
        (container, "volumeMounts", kept_container),
        (result["spec"], "volumes", kept["spec"]),
    ):
        if not owner[key] and key not in old:
            del owner[key]
    return result


def _put_back(words: Sequence[str], kept: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Return words with the flags that `kept` has, in its order where nothing else has changed."""
    others, stayed = _without(kept, flags), _without(words, flags)
    return list(kept) if stayed == others else [*stayed, *(w for w in kept if w not in others)]


def patch(
    manifest: Mapping[str, Any],
    flags: Sequence[str],
    path: str,
    content: str,
    certificates: str = "",
) -> dict[str, Any]:
    """Return the strategic merge patch by which kubeadm writes a manifest that `with_flags` leaves.

    A patch replaces a list of words whole, and each version of kubeadm has a command of its own; so
    the flags stand in `args`, which kubeadm leaves out.

    Args:
        manifest: the present one, which names the container.
        flags: as for `with_flags`.
        path: as for `with_flags`.
        content: as for `with_flags`.
        certificates: as for `with_flags`.

    Raises:
        ValueError: the manifest has no container that runs kube-scheduler.
    """
    name = scheduler_container(manifest["spec"])["name"]
    bare = {"spec": {"containers": [{"name": name, "command": ["kube-scheduler"]}]}}
    made = with_flags(bare, flags, path, content, certificates)
    container = scheduler_container(made["spec"])
    del container["command"]
    container["args"] = list(flags)
    return made


def is_ours(manifest: Mapping[str, Any]) -> bool:
    """Say whether `with_flags` made this manifest."""
    return CHECKSUM_ANNOTATION in (manifest.get("metadata", {}).get("annotations") or {})


def was_started_with(manifest: Mapping[str, Any], content: str) -> bool:
    """Say whether the kubelet got this manifest for a file with this content.

    A foreign manifest names no file of ours.
    """
    if not is_ours(manifest):
        return True
    said = manifest["metadata"]["annotations"][CHECKSUM_ANNOTATION]
    return bool(said == hashlib.sha256(content.encode()).hexdigest())


def scheduler_container(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the container whose command is kube-scheduler."""
    for container in spec.get("containers") or []:
        command = container.get("command") or [""]
        if command[0].rpartition("/")[2] == "kube-scheduler":
            found: dict[str, Any] = container
            return found
    raise ValueError("spec.containers: none has kube-scheduler as command[0]")


def mount(spec: dict[str, Any], name: str, path: str, kind: str) -> None:
    """Mount `path` of the host at the same path of the scheduler's container, read-only.

    A mount of the site's own stays alone; an empty path takes our mount away.
    """
    container = scheduler_container(spec)
    there, volumes_there = container.get("volumeMounts") or [], spec.get("volumes") or []
    ours = {"name": name, "mountPath": path, "readOnly": True}
    volume = {"name": name, "hostPath": {"path": path, "type": kind}}
    if ours in there and volume in volumes_there:
        return
    volumes = [one for one in volumes_there if one.get("name") != name]
    mounts = [one for one in there if one.get("name") != name]
    theirs = next((one for one in mounts if path and one.get("mountPath") == path), None)
    if theirs is not None:
        _check_mount(theirs, volumes, path)
    elif path:
        mounts.append(ours)
        volumes.append(volume)
    container["volumeMounts"], spec["volumes"] = mounts, volumes


def _check_mount(
    theirs: Mapping[str, Any], volumes: Sequence[Mapping[str, Any]], path: str
) -> None:
    source = next((one for one in volumes if one.get("name") == theirs["name"]), {})
    found = (source.get("hostPath") or {}).get("path")
    if found != path:
        raise ValueError(
            f"volumeMounts: {theirs['name']} mounts {found or 'something else'} at {path}, where "
            "the scheduler shall read the host's file of the same path; mount it elsewhere, or "
            "set kube_scheduler_config_path to a path of its own"
        )


def _check_flags(container: Mapping[str, Any], flags: Sequence[str], path: str) -> None:
    """Refuse to hide the file that the scheduler reads: the site's, or ours with the site's part.

    What was kept for uninstall lies beside it, too.

    Args:
        container: the scheduler's.
        flags: ours.
        path: the file that they name.
    """
    ours = next(flag for flag in flags if flag.endswith(f"={path}"))
    name = ours.partition("=")[0]
    words = _words(container)
    if name in words:
        raise ValueError(f"command: write {name} and its value as one word, {name}=PATH")
    found = next((word for word in words if word.startswith(f"{name}=")), ours)
    if found != ours:
        raise ValueError(
            f"command: the scheduler reads {found}, not {path}: set the variable that says "
            f"{path} (kube_scheduler_config_path or kube_scheduler_policy_path) to that file, "
            "into which our entries are then merged"
        )


def _words(container: Mapping[str, Any]) -> list[str]:
    return [*container["command"], *(container.get("args") or [])]


def _without(command: Sequence[str], flags: Sequence[str]) -> list[str]:
    names = {flag.partition("=")[0] for flag in flags}
    return [word for word in command if word.partition("=")[0] not in names]


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {
            "kube_scheduler_is_ours": is_ours,
            "kube_scheduler_patch": patch,
            "kube_scheduler_was_started_with": was_started_with,
            "kube_scheduler_with_flags": with_flags,
            "kube_scheduler_without_flags": without_flags,
        }
