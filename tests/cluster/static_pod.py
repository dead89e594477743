"""kube-scheduler as kubeadm runs it: a static pod of a kubelet on the control-plane host.

The kubelet here knows no API server; what a static pod is doesn't depend on one.
"""

import pathlib
import tempfile

import yaml

from tests.testbed import cluster, description, files, hosts, image_archive, images, kubernetes

MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"
IMAGE = "gpustack.test/kube-scheduler:1"
STORE = "/var/lib/containerd"
KUBELET = "kubelet.service"
BROKEN = "/root/broken-certificates"
FILES = pathlib.Path(__file__).with_name("static_pod_files")


def start(bench: description.Bench) -> str:
    """Let a static pod schedule in the place of the unit; return its manifest.

    Raises:
        BenchError: something did not start.
    """
    host = bench.control_plane
    manifest = (FILES / "kube-scheduler.yaml").read_text()
    hosts.copy(bench, host, [
        files.template("containerd.toml", "/etc/containerd/config.toml", pause_image=images.PAUSE),
        files.File("/var/lib/kubelet/config.yaml", _kubelet_config()),
        files.File(f"/etc/systemd/system/{KUBELET}", (FILES / KUBELET).read_bytes()),
        files.File("/root/pause.tar", (images.folder() / "pause.tar").read_bytes()),
        files.File("/root/kube-scheduler.tar", _image()),
        files.Folder("/etc/kubernetes/manifests"),
        # every container of a bench's host mounts it
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
        hosts.output(bench, host, command)
    cluster.stop_scheduler(bench, cluster.CURRENT_UNIT)
    hosts.copy(bench, host, [files.File(MANIFEST, manifest.encode(), mode=0o600)])
    cluster.wait_leader(bench, KUBELET)
    return manifest


def stop(bench: description.Bench) -> None:
    """Let the unit schedule again; nothing of the kubelet is left."""
    host = bench.control_plane
    hosts.output(bench, host, ["rm", "-f", MANIFEST])
    hosts.run(bench, host, ["systemctl", "stop", KUBELET, "containerd.service"])
    # containers outlive both
    hosts.run(bench, host, ["pkill", "--full", "containerd-shim-runc-v2"])
    hosts.run(bench, host, ["pkill", "--exact", "kube-scheduler"])
    hosts.run(bench, host, ["umount", "--recursive", "--lazy", STORE])
    cluster.use_scheduler(bench, kubernetes.CURRENT.minor)


def lay_broken_certificates(bench: description.Bench) -> None:
    """Lay certificates that no scheduler can load, and that stop it when it starts."""
    names = ("ca.crt", "client.crt", "client.key")
    broken = [files.File(f"{BROKEN}/{name}", b"no certificate\n") for name in names]
    hosts.copy(bench, bench.control_plane, [*broken])


def _kubelet_config() -> bytes:
    """Return what the nodes' kubelets have, for one that has no API server to ask who calls."""
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
