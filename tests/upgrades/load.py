"""Twenty pods that allocate and launch all the while, and what NVML counts of them meanwhile."""

import dataclasses
import functools
import json
import subprocess
from typing import Any, Self

from tests.cluster import workloads
from tests.cluster.kubectl import is_running, wait_for
from tests.cluster.site import Site
from tests.testbed import description

PODS = 20
CORE_PERCENT = 20
MEMORY_MIB = 4096
SHARE = {workloads.CORE: str(CORE_PERCENT), workloads.MEMORY: str(MEMORY_MIB // 256)}
SECONDS = 10  # of one process; each pod starts the next one at once
# What unused time a bucket keeps at most (CREDIT_MAX_NS of the hook's limiter_card.c): it is found
# where programs are held up, on a machine of two cores for one.
CREDIT_SECONDS = 2
POINTS = 3.0
COMMAND = (
    f"while said=$(cuda-workload --allocate 1024 --try {MEMORY_MIB}"
    f' --kernel-us 10000 --seconds {SECONDS}); do echo "$said"; done; echo "$said"; exit 1'
)
QUERY = "--query-compute-apps=pid,used_memory"


@dataclasses.dataclass(slots=True, kw_only=True)
class Load:
    """Pods of one Deployment, on a site whose GPU hosts are sampled once a second."""

    site: Site
    name: str
    started: dict[str, tuple[str, int]] = dataclasses.field(default_factory=dict)
    hooks: dict[str, str] = dataclasses.field(default_factory=dict)
    lines: dict[str, int] = dataclasses.field(default_factory=dict)
    samplers: list[subprocess.Popen[str]] = dataclasses.field(default_factory=list)

    def __enter__(self) -> Self:
        container = workloads.container(SHARE, ["sh", "-c", COMMAND])
        self.site.kubectl.apply(workloads.deployment(self.name, PODS, container))
        wait_for("all pods to run", lambda: len(self._containers()) == PODS, seconds=300)
        self.started = self._containers()
        self.hooks = {pod: hook_sum(self.site, pod) for pod in self.started}
        self.lines = dict.fromkeys(self.started, 0)
        testbed = description.load(self.site.name)
        for host in testbed.gpu_hosts:
            command = ["nvidia-smi", QUERY, "--format=csv,noheader,nounits", "-l", "1"]
            sampler = subprocess.Popen(
                ["podman", "exec", testbed.container(host), *command],
                stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            self.samplers.append(sampler)
        return self

    def __exit__(self, *_: object) -> None:
        for sampler in self.samplers:
            sampler.kill()
            sampler.wait()
        self.site.kubectl.delete(f"deployment/{self.name}")

    def assert_unharmed(self) -> None:
        """Require that no pod has died, each has worked since the last call, within its limits."""
        assert self._containers() == self.started
        assert {pod: hook_sum(self.site, pod) for pod in self.started} == self.hooks
        for pod in self.started:
            work_on = functools.partial(self._new_windows, pod)
            wait_for(f"{pod} to work on", work_on, seconds=120)

    def assert_samples_within_limits(self) -> int:
        """Require it of what NVML counted; return the number of samples. It ends the sampling."""
        seen = 0
        for sampler in self.samplers:
            sampler.terminate()
            text = sampler.communicate()[0]
            used = [int(line.split(",")[1]) for line in text.splitlines() if "," in line]
            assert max(used, default=0) <= MEMORY_MIB
            seen += len(used)
        self.samplers.clear()
        return seen

    def _containers(self) -> dict[str, tuple[str, int]]:
        """Return container and restarts of each pod that runs."""
        pods = self.site.kubectl.items("pods", f"--selector=k8s-app={self.name}")
        statuses = {
            pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]
            for pod in pods
            if is_running(pod)
        }
        return {pod: (each["containerID"], each["restartCount"]) for pod, each in statuses.items()}

    def _new_windows(self, pod: str) -> bool:
        """Check the windows that the pod has printed; say whether there is a new one."""
        said = self.site.kubectl.run("logs", pod).splitlines()
        windows = [json.loads(line) for line in said]
        for window in windows[self.lines[pod] :]:
            check(pod, window)
        grown = len(windows) > self.lines[pod]
        self.lines[pod] = len(windows)
        return grown


def check(pod: str, window: dict[str, Any]) -> None:
    """Require that a process got its memory, no more, and no more time than its share."""
    if "allocations" in window:
        assert window["allocations"][0]["result"] == "CUDA_SUCCESS", (pod, window)
        assert window["tries"][0]["result"] == "CUDA_ERROR_OUT_OF_MEMORY", (pod, window)
        assert window["devices"][0]["total"] == MEMORY_MIB << 20, (pod, window)
        return
    assert window["result"] == "CUDA_SUCCESS", (pod, window)
    paid_seconds = window["seconds"] + CREDIT_SECONDS
    used = window["launches"] * window["kernel_us"] / paid_seconds / 1e4
    assert used <= CORE_PERCENT + POINTS, (pod, used, window)


def hook_sum(site: Site, pod: str) -> str:
    """Return the SHA-256 of the library that a pod's processes load before all others."""
    script = 'sha256sum "$(cat /etc/ld.so.preload)"'
    return site.kubectl.execute(pod, "sh", "-c", script).split()[0]
