"""The container runtime's answers, by a real socket: its lists, Version and Status.

The first byte of an input says which: `l` (containers), `p` (pods' sandboxes), `v` or `s`; the
rest is the message. Behind `c` it is the configuration alone, which `Status` shows as JSON.
"""

import pathlib
from typing import Final

from gpustack.adapters.cri import CriClient, CriUnavailable, cri_pb2, why_no_cdi
from gpustack.adapters.cri.client import RuntimeContainer, RuntimeVersion
from tests.fuzz.harness import Target
from tests.fuzz.raw_server import RawServer

_SERVER: Final = RawServer(
    "runtime.v1.RuntimeService", "ListContainers", "ListPodSandbox", "Version", "Status"
)
_CLIENT: Final = CriClient(f"unix://{_SERVER.socket}")
_FOLDER: Final = pathlib.Path("/var/run/cdi")
_KNOWN: Final = RuntimeVersion(name="containerd", version="v1.7.24")
_LABEL: Final = "io.kubernetes.{}"


def check(data: bytes) -> None:
    kind, _SERVER.answer = data[:1], data[1:]
    try:
        match kind:
            case b"l":
                _containers()
            case b"p":
                assert all(isinstance(each, str) for each in _CLIENT.ready_pods())
            case b"v":
                why_no_cdi(_CLIENT.version(), {}, _FOLDER).encode()
            case b"s":
                why_no_cdi(_KNOWN, _CLIENT.config(), _FOLDER).encode()
            case b"c":
                shown = {"config": data[1:].decode("utf-8", "replace")}
                _SERVER.answer = cri_pb2.StatusResponse(info=shown).SerializeToString()
                why_no_cdi(_KNOWN, _CLIENT.config(), _FOLDER).encode()
    except CriUnavailable:
        return


def _containers() -> None:
    found = _CLIENT.containers()
    _SERVER.answer = cri_pb2.ListContainersResponse(
        containers=[_message(each) for each in found]
    ).SerializeToString()
    assert _CLIENT.containers() == found


def _message(container: RuntimeContainer) -> cri_pb2.Container:
    namespace, name = container.pod
    labels = {
        _LABEL.format("pod.uid"): container.pod_uid,
        _LABEL.format("pod.namespace"): namespace,
        _LABEL.format("pod.name"): name,
        _LABEL.format("container.name"): container.name,
    }
    exited = cri_pb2.CONTAINER_CREATED if container.created else cri_pb2.CONTAINER_EXITED
    return cri_pb2.Container(
        id=container.id,
        state=cri_pb2.CONTAINER_RUNNING if container.running else exited,
        labels=labels,
        annotations=dict(container.annotations),
    )


def _seeds() -> list[bytes]:
    one = RuntimeContainer(
        id="c1",
        pod_uid="u-1",
        pod=("a", "p"),
        name="main",
        running=True,
        created=False,
        annotations={"tencent.com/vcuda-device": "/dev/nvidia0"},
    )
    listed = cri_pb2.ListContainersResponse(containers=[_message(one)] * 2).SerializeToString()
    sandbox = cri_pb2.PodSandbox(labels={_LABEL.format("pod.uid"): "u-1"})
    pods = cri_pb2.ListPodSandboxResponse(items=[sandbox] * 2).SerializeToString()
    version = cri_pb2.VersionResponse(runtime_name="containerd", runtime_version="v1.7.1")
    config = b'{"cdiSpecDirs": ["/etc/cdi", "/var/run/cdi"], "enableCDI": true}'
    status = cri_pb2.StatusResponse(info={"config": config.decode()}).SerializeToString()
    said = version.SerializeToString()
    return [b"l" + listed, b"p" + pods, b"v" + said, b"s" + status, b"c" + config]


TARGET: Final = Target(
    check=check,
    seeds=_seeds(),
    words=[
        "io.kubernetes.pod.uid",
        "io.kubernetes.container.name",
        "cri-o",
        "containerd",
        '"cdiSpecDirs":[',
        '"enableCDI":',
        "config",
        "true",
        "\\u0000",
        "\\ud800",
        "v1.7.",
        "99999999999999999999",
    ],
    limit_bytes=2 << 20,  # a host of some hundred containers has so much; time grows with it
    cpu_seconds=8.0,
)
