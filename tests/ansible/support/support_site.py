"""A site of one control plane and one GPU host, on this machine, whose every file has secrets."""

import contextlib
import http.server
import json
import pathlib
import socket
import tarfile
import threading
from collections.abc import Iterator
from typing import Any

from tests.ansible import layout
from tests.ansible.api_server import node, serving
from tests.ansible.preflight.preflight_host import write_program
from tests.ansible.rendering import ansible

# A token, a word, a passphrase, a base64 text and a number.
SECRETS = (
    "eyJhbGciOi.J9-x_Zq", "Zq9vTqWx", "korrekt-hest.batteri", "c2VjcmV0IQ==", "4929123456789012",
    "hunter2", "пароль", "p@$$w0rd~`&^",
)  # fmt: skip
SECRET = " ".join(SECRETS)
POD, OTHER = "trainer-0", "web"
PAGES = {
    "/version": {"version": "0.2.0", "note": SECRET},
    "/readyz": f"not ready: kubeconfig /etc/kubernetes/kubelet.conf: Unauthorized {SECRET}",
    "/metrics": f"# HELP x {SECRET}\ngpustack_registered 1\n"
    f'gpustack_closed_cards{{pod="{POD}",reason="{SECRET}"}} 85899345920\n'
    f"{SECRET} 1\ngpustack_registered {SECRET}\n",
    "/v1/decisions": {
        "decisions": [{"name": POD, "verb": "filter", "message": SECRET, SECRET: 1}],
    },
}
MESSAGES = [
    f"<4>node not published yet node=gpu1: Unauthorized {SECRET}",
    f"<6>certificates read again file=/etc/gpustack/pki/extender.crt bytes=123456 pod={POD}",
    *(f"token={each} password: {each};'{each}'" for each in SECRETS),
]


class _Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES[self.path]
        body = (page if isinstance(page, str) else json.dumps(page)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print no line: pytest's output is for failures."""


@contextlib.contextmanager
def daemon() -> Iterator[str]:
    """Serve the pages of agent and extender; yields their address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def entry(message: object, at: int = 0) -> str:
    """Return a line of a journal as journalctl prints it."""
    return json.dumps({"__REALTIME_TIMESTAMP": f"{1790000000 + at}000000", "MESSAGE": message})


def lay(folder: pathlib.Path) -> pathlib.Path:
    """Lay a host's files and programs into a folder; returns where its files begin."""
    root = folder / "root"
    packages = root / "opt/gpustack/venv/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    for name in ("gpustack", "extender"):
        (packages / name).symlink_to(layout.ROOT / name)
    texts = {
        "etc/os-release": f'ID=debian\nVERSION_ID="12"\nHOME_URL="{SECRET}"\n',
        "etc/gpustack/agent.yml": f'# {SECRET}\nnode_name: "gpu1"\nlog_level: info\n'
        f"sample_period_seconds: 85899\nnode_labels: {json.dumps({SECRET: SECRET})}\n"
        f"password: {SECRET}\n{SECRET}\n",
        "etc/gpustack/extender.yml": f"policy: exact\nquota:\n  name: {SECRET}\n",
        "etc/gpustack/extender.kubeconfig": SECRET,
        "etc/gpustack/pki/ca.key": SECRET,
        "var/lib/gpustack/checkpoint.json": '01234567 {"put": {"uid": "a-uid", '
        f'"name": "{POD}", "environment": {json.dumps(SECRET)}}}}}\n',
        "sys/module/nvidia/version": "535.261.03\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    units = [
        f"Id={unit}\nActiveState=active\nNRestarts=3\nEnvironment=X={SECRET}\nSubState={SECRET}\n"
        f"ExecStart={SECRET}\nStatusText=not ready: {SECRET}\n"
        for unit in ("gpustack-agent.service", "gpustack-extender.service", "kubelet.service")
    ]
    kernel = f"NVRM: Xid (PCI:0000:07:00): 79, pid=12, name={SECRET}, GPU has fallen off the bus"
    journal = [*map(entry, MESSAGES), entry([1, 2]), entry(kernel), SECRET]
    card = "GPU-01234567-89ab-cdef-0123-456789abcdef"
    printed = {
        "systemctl": "\n".join(units),
        "journalctl": "\n".join(reversed(journal)) + "\n",
        "nvidia-smi": f"0, {card}, NVIDIA A100-SXM4-80GB, 535.261.03, 81920, 5, 40, Disabled\n"
        f"1, {SECRET}, {SECRET}, {SECRET}, {SECRET}, {SECRET}, {SECRET}, {SECRET}\n",
        "openssl": f"notBefore=Nov 28 08:53:00 2026 GMT\nnotAfter=Nov 28 08:53:00 2036 GMT\n"
        f"subject={SECRET}\nnotAfter={SECRET}\n",
        "kubelet": f"Kubernetes v1.34.4 {SECRET}\n",
        "containerd": SECRET,
    }
    for name, text in printed.items():
        (folder / f"{name}.txt").write_text(text)
        write_program(folder, name, f"cat {folder}/{name}.txt")
    return root


def objects() -> dict[str, list[dict[str, Any]]]:
    """Return a cluster's objects with secrets in all fields that their users write."""
    header = {"httpGet": {"port": 80, "httpHeaders": [{"name": "X-Key", "value": SECRET}]}}
    amounts = {"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "8", "cpu": "7"}
    container = {
        "name": "main", "image": SECRET, "env": [{"name": SECRET, "value": SECRET}],
        "command": [SECRET], "args": [SECRET], "livenessProbe": header,
        "resources": {"limits": amounts},
    }  # fmt: skip
    status = {
        "phase": "Running", "message": SECRET,
        "conditions": [{"type": "Ready", "status": "True", "message": SECRET}],
        "containerStatuses": [{"name": "main", "image": SECRET, "state": {
            "terminated": {"reason": "Error", "exitCode": 1, "message": SECRET}}}],
    }  # fmt: skip
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": SECRET,
        "tencent.com/predicate-gpu-idx-0": "0", "tencent.com/other": SECRET,
    }  # fmt: skip
    metadata = {
        "name": POD, "namespace": "default", "labels": {"x": SECRET}, "annotations": annotations,
    }  # fmt: skip
    pods = [
        {"metadata": metadata, "spec": {"containers": [container], "x": SECRET}, "status": status},
        {"metadata": {"name": OTHER, "namespace": SECRET}, "spec": {"containers": []}},
    ]
    gpu = node("gpu1", {"nvidia-device-enable": "enable", "x": SECRET}, cpu="8")
    gpu["metadata"]["annotations"] = {
        "tencent.com/gpu-devices": json.dumps({"driver": "535.261.03", "x": SECRET}),
        "tencent.com/gpu-violations": json.dumps(
            {"violations": [{"reason": "ShareExceeded", "x": SECRET}], "x": SECRET}
        ),
        "x": SECRET,
    }
    gpu["status"] |= {"images": [{"names": [SECRET]}], "addresses": [{"address": SECRET}]}
    gpu["status"]["allocatable"]["tencent.com/vcuda-core"] = "800"
    event = {"metadata": {"name": "e"}, "reason": "CardQuarantined", "message": SECRET,
             "source": {"component": "gpustack-agent"}}  # fmt: skip
    foreign = {**event, "reason": SECRET, "source": {"component": "x"}}
    return {"nodes": [gpu], "pods": pods, "events": [event, foreign]}


def closed_port() -> int:
    """Return a port of this machine on which nothing answers."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
    return port


def collect(
    folder: pathlib.Path,
    *,
    address: str,
    kubeconfig: pathlib.Path,
    hosts: dict[str, dict[str, Any]] | None = None,
    arguments: tuple[str, ...] = (),
    **variables: Any,
) -> tuple[str, dict[str, str]]:
    """Run the playbook; returns what it says, and the archive's files.

    Args:
        folder: of the site, as `lay` has made it.
        address: of agent and extender.
        kubeconfig: of an administrator.
        hosts: more variables of `cp1` and `gpu1`, and more GPU hosts.
        arguments: of ansible-playbook.
        variables: of all hosts.
    """
    common = {
        "ansible_connection": "local", "ansible_become": False,
        "cluster_objects_kubeconfig": str(kubeconfig), **variables,
    }  # fmt: skip
    told = {"cp1": {}, "gpu1": {}, **(hosts or {})}
    groups = {
        "kube_control_plane": {"hosts": {"cp1": told["cp1"]}},
        "gpu_nodes": {"hosts": {name: one for name, one in told.items() if name != "cp1"}},
    }
    (folder / "hosts.yml").write_text(json.dumps({"all": {"vars": common, "children": groups}}))
    archive = folder / "report.tar.gz"
    told_all = {
        "support_archive": str(archive), "__support_root": str(folder / "root"),
        "__support_agent": address, "__support_extender": address,
    }  # fmt: skip
    done = ansible(
        "ansible-playbook", f"--inventory={folder}/hosts.yml", *arguments,
        f"--extra-vars={json.dumps(told_all)}", "playbooks/support.yml",
        programs=folder / "programs",
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    files = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None, "folders come of themselves"
            files[member.name.removeprefix("gpustack-support/")] = file.read().decode()
    return said, files


@contextlib.contextmanager
def cluster(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Serve the cluster's objects; yields the kubeconfig of an administrator."""
    with serving(folder, objects()) as kubeconfig:
        yield kubeconfig
