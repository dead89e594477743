"""kube-scheduler as kubeadm runs it: a static pod of a kubelet on the control-plane host.

The kubelet here knows no API server; what a static pod is doesn't depend on one.
"""

import pathlib
import tempfile

import yaml

from tests.testbed import cluster, description, hosts
from tests.testbed.artifacts import image_archive, images, kubernetes
from tests.testbed.host_files import files

MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"
IMAGE = "gpustack.test/kube-scheduler:1"
STORE = "/var/lib/containerd"
KUBELET = "kubelet.service"
BROKEN = "/root/broken-certificates"
FILES = pathlib.Path(__file__).with_name("static_pod_files")


def start(testbed: description.Testbed) -> str:
    """Let a static pod schedule in the place of the unit; return its manifest.

    Raises:
        TestbedError: something did not start.
    """
    host = testbed.control_plane
    manifest = (FILES / "kube-scheduler.yaml").read_text()
    hosts.copy(testbed, host, [
        files.template("containerd.toml", "/etc/containerd/config.toml", pause_image=images.PAUSE),
        files.File("/var/lib/kubelet/config.yaml", _kubelet_config()),
        files.File(f"/etc/systemd/system/{KUBELET}", (FILES / KUBELET).read_bytes()),
        files.File("/root/pause.tar", (images.folder() / "pause.tar").read_bytes()),
        files.File("/root/kube-scheduler.tar", _image()),
        files.Folder("/etc/kubernetes/manifests"),
        # every container of a testbed's host mounts it
        files.Folder("/var/lib/simgpu"),
        files.Folder(STORE),
    ])  # fmt: skip
    for command in (
        # overlay does not stack on overlay
        ["mount", "-t", "tmpfs", "tmpfs", STORE],
        ["systemctl", "start", "containerd.service"],
        ["ctr", "--namespace=k8s.io", "images", "import", "/root/pause.tar"],
        ["ctr", "--namespace=k8s.io", "images", "import", "/root/kube-scheduler.tar"],
        ["rm", "/root/pause.tar", "/root/kube-scheduler.tar"],
        ["systemctl", "daemon-reload"],
        ["systemctl", "start", KUBELET],
    ):
        hosts.output(testbed, host, command)
    cluster.stop_scheduler(testbed, cluster.CURRENT_UNIT)
    hosts.copy(testbed, host, [files.File(MANIFEST, manifest.encode(), mode=0o600)])
    cluster.wait_leader(testbed, KUBELET)
    return manifest


def stop(testbed: description.Testbed) -> None:
    """Let the unit schedule again; nothing of the kubelet is left."""
    host = testbed.control_plane
    hosts.output(testbed, host, ["rm", "-f", MANIFEST])
    hosts.run(testbed, host, ["systemctl", "stop", KUBELET, "containerd.service"])
    # containers outlive both
    hosts.run(testbed, host, ["pkill", "--full", "containerd-shim-runc-v2"])
    hosts.run(testbed, host, ["pkill", "--exact", "kube-scheduler"])
    hosts.run(testbed, host, ["umount", "--recursive", "--lazy", STORE])
    cluster.use_scheduler(testbed, kubernetes.CURRENT.minor)


def lay_broken_certificates(testbed: description.Testbed) -> None:
    """Lay certificates that no scheduler can load, and that stop it when it starts."""
    names = ("ca.crt", "client.crt", "client.key")
    broken = [files.File(f"{BROKEN}/{name}", b"no certificate\n") for name in names]
    hosts.copy(testbed, testbed.control_plane, [*broken])


def _kubelet_config() -> bytes:
    """Return what the nodes' kubelets have, for one that has no API server to identify callers."""
    found = yaml.safe_load((files.TEMPLATES / "kubelet-config.yaml").read_text())
    found["authentication"] = {"anonymous": {"enabled": True}, "webhook": {"enabled": False}}
    found["authorization"] = {"mode": "AlwaysAllow"}
    found["staticPodPath"] = str(pathlib.PurePosixPath(MANIFEST).parent)
    return yaml.safe_dump(found).encode()


def _image() -> bytes:
    program = (kubernetes.CURRENT.bin / "kube-scheduler").read_bytes()
    image = image_archive.Image(
        tag=IMAGE,
        entries=[files.File("/usr/local/bin/kube-scheduler", program, mode=0o755)],
        command=("kube-scheduler",),
        environment=(images.PATH,),
    )
    with tempfile.TemporaryDirectory() as scratch:
        archive = pathlib.Path(scratch) / "image.tar"
        image_archive.write(image, archive)
        return archive.read_bytes()
