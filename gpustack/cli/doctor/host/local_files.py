"""What a host's files say: modules, device nodes, sockets, configurations, certificates."""

import base64
import pathlib
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from gpustack.adapters.hook_build import HookBuild
from gpustack.adapters.kube import kubeconfig
from gpustack.cli.doctor.host.facts import Credential, SchedulerFile
from gpustack.model.errors import GpustackError
from gpustack.wire.files import certificates, regular_file, strict_yaml
from gpustack.wire.files.certificates import Validity

_MOST_BYTES: Final = 1 << 20  # of a configuration, a token or a bundle of certificates
_MOST_SOCKETS: Final = 1000  # of a folder; a kubelet has some ten
_NODES: Final = ("nvidiactl", "nvidia-uvm")


class HostFileError(GpustackError):
    """A file of the host is not as it should be."""


def modules(folder: pathlib.Path, names: Iterable[str]) -> frozenset[str]:
    """Return those of the names that are loaded modules: they have a folder in /sys/module."""
    return frozenset(name for name in names if (folder / name).is_dir())


def module_version(folder: pathlib.Path) -> str:
    """Return the version of the module nvidia that is loaded.

    Raises:
        OSError, ValueError: it can't be read.
    """
    return text_of(folder / "nvidia" / "version").strip()


def device_nodes(folder: pathlib.Path, minors: Iterable[int]) -> dict[str, str]:
    """Return the paths of the nodes that containers get, each with what is wrong."""
    names = (*_NODES, *(f"nvidia{minor}" for minor in minors))
    return {str(folder / name): _node_problem(folder / name) for name in names}


def _node_problem(path: pathlib.Path) -> str:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return str(error.strerror)
    return "" if stat.S_ISCHR(mode) else "is no device node; remove it"


def sockets(folder: pathlib.Path) -> frozenset[str]:
    """Return the names of the sockets in a folder.

    Raises:
        OSError: it can't be read.
        HostFileError: it has too many files.
    """
    found = []
    for count, path in enumerate(folder.iterdir()):
        if count >= _MOST_SOCKETS:
            raise HostFileError(f"{folder}: has more than {_MOST_SOCKETS} files")
        if path.is_socket():
            found.append(path.name)
    return frozenset(found)


def registry_sockets(folder: pathlib.Path) -> frozenset[str]:
    """Return the sockets of the kubelet's plugins_registry, which a kubelet may not have made."""
    return sockets(folder) if folder.is_dir() else frozenset()


def mount_socket(path: str) -> str:
    """Return the socket of gpustack-mount.

    Raises:
        HostFileError: it isn't there.
    """
    if path and not pathlib.Path(path).is_socket():
        raise HostFileError(f"{path} is no socket: gpustack-mount does not run")
    return path


def hook(state: pathlib.Path, version: str) -> str:
    """Return the folder of the hook's build.

    Raises:
        HookError: it can't be used.
    """
    build = HookBuild(state / "hooks" / version)
    build.layout()
    return str(build.folder())


def credentials(path: pathlib.Path) -> tuple[Credential, ...]:
    """Return the certificates and tokens of a kubeconfig.

    Raises:
        KubeConfigError: it can't be used.
    """
    context = kubeconfig.read([path])
    return (
        *_certificates("certificate-authority", context.cluster),
        *_certificates("client-certificate", context.user),
        *_tokens(context.user),
    )


def daemon_tokens(path: pathlib.Path) -> tuple[Credential, ...]:
    """Return the tokens of the extender's kubeconfig, and those beside them of other daemons.

    Raises:
        KubeConfigError: it can't be used.
        OSError: the folder can't be read.
    """
    user = kubeconfig.read([path]).user
    if "tokenFile" not in user:
        return tuple(_tokens(user))
    folder = pathlib.Path(user["tokenFile"]).parent
    # one that begins with a point is being written
    others = {each for each in folder.iterdir() if not each.name.startswith(".")}
    files = sorted({pathlib.Path(user["tokenFile"]), *others})
    return tuple(token for file in files for token in _tokens({"tokenFile": file}))


def certificate(place: str) -> Credential:
    """Return a server's certificate, which stands first in its file."""
    (found,) = _certificates("certificate", {"certificate": place})
    return found


def _certificates(name: str, fields: Mapping[str, Any]) -> Iterator[Credential]:
    data, place = fields.get(f"{name}-data"), str(fields.get(name) or "")
    if not data and not place:
        return
    try:
        raw = (
            base64.b64decode(data)
            if data
            else regular_file.read(pathlib.Path(place), max_bytes=_MOST_BYTES)
        )
        found = certificates.certificates(raw)
    except OSError as error:
        yield Credential(name=name, place=place, problem=f"can't be read: {error.strerror}")
    except ValueError as error:
        yield Credential(name=name, place="" if data else place, problem=str(error))
    else:
        yield Credential(name=name, place="" if data else place, validity=_of_all(name, found))


def _of_all(name: str, found: list[Validity]) -> Validity:
    """Return the dates that count: one's own stand first, of authorities one is enough."""
    if name == "certificate-authority":
        return max(found, key=lambda each: each.ends)
    return found[0]


def _tokens(user: Mapping[str, Any]) -> Iterator[Credential]:
    if user.get("token"):
        yield Credential(name="token", validity=certificates.token(str(user["token"])))
    elif user.get("tokenFile"):
        place = str(user["tokenFile"])
        try:
            text = text_of(pathlib.Path(place))
        except (OSError, ValueError) as error:
            yield Credential(name="tokenFile", place=place, problem=f"can't be read: {error}")
        else:
            yield Credential(name="tokenFile", place=place, validity=certificates.token(text))


def schedulers(paths: Iterable[pathlib.Path]) -> tuple[SchedulerFile, ...]:
    """Return the configurations of kube-scheduler that are there."""
    return tuple(_scheduler(path) for path in paths if path.exists())


def _scheduler(path: pathlib.Path) -> SchedulerFile:
    try:
        return SchedulerFile(path=str(path), value=strict_yaml.load(text_of(path)))
    except (yaml.YAMLError, RecursionError) as error:
        return SchedulerFile(path=str(path), problem=f"is not YAML: {error}")
    except (OSError, ValueError) as error:
        return SchedulerFile(path=str(path), problem=f"can't be read: {error}")


def text_of(path: pathlib.Path) -> str:
    """Return a short text file.

    Raises:
        OSError: it can't be read.
        ValueError: it is no regular file, too long, or no UTF-8.
    """
    return regular_file.read(path, max_bytes=_MOST_BYTES).decode()
