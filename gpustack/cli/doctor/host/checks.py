"""The checks of a host, on it, in the order of the output."""

from typing import Final

from gpustack.cli.doctor.check import Check, Severity
from gpustack.cli.doctor.host import agent, credentials, driver, facts, metrics, schedulers
from gpustack.cli.doctor.host.facts import GPU_HOST, HostFacts

_AGENT: Final = "systemctl restart gpustack-agent; journalctl --unit=gpustack-agent"
_DEVICE: Final = "systemctl restart gpustack-device; journalctl --unit=gpustack-device"
_FAIL: Final = Severity.FAIL

CHECKS: Final[tuple[Check[HostFacts], ...]] = (
    Check(
        name="driver",
        why="without the driver the node has no cards",
        mend="nvidia-smi; dmesg | grep -i nvrm; run site.yml with --tags nvidia_driver",
        find=driver.nvml,
        needs=(GPU_HOST, facts.NVML),
        unread=_FAIL,
    ),
    Check(
        name="driver-version",
        why="a library of another version than the loaded module refuses every program",
        mend='boot the host; docs/upgrades.md, "After a driver upgrade"',
        find=driver.version,
        needs=(GPU_HOST, facts.MODULE_VERSION),
    ),
    Check(
        name="modules",
        why="CUDA needs both: without nvidia_uvm every program of a container fails",
        mend=_DEVICE,
        find=driver.modules,
        needs=(GPU_HOST, facts.MODULES),
        unread=_FAIL,
    ),
    Check(
        name="device-nodes",
        why="a container gets these nodes; a pod whose node is missing doesn't start",
        mend=_DEVICE,
        find=driver.device_nodes,
        needs=(GPU_HOST, facts.DEVICE_NODES),
        unread=_FAIL,
    ),
    Check(
        name="agent-config",
        why="the agent doesn't start with a configuration that it can't read",
        mend="run site.yml with --tags gpustack_agent",
        find=agent.config,
        needs=(GPU_HOST, facts.CONFIG),
        unread=_FAIL,
    ),
    Check(
        name="agent",
        why="without the agent no pod with cards starts on this node",
        mend=_AGENT,
        find=agent.version,
        needs=(GPU_HOST, facts.SETTINGS, facts.AGENT),
        unread=_FAIL,
    ),
    Check(
        name="agent-ready",
        why="an agent that isn't ready gives no new pod its cards",
        mend="journalctl --unit=gpustack-agent",
        find=agent.ready,
        needs=(GPU_HOST, facts.SETTINGS, facts.READINESS),
        unread=_FAIL,
    ),
    Check(
        name="kubelet-plugins",
        why="the kubelet asks the agent through these sockets; without them the node offers no"
        " cards",
        mend=_AGENT,
        find=agent.plugins,
        needs=(GPU_HOST, facts.SETTINGS, facts.PLUGINS),
        unread=_FAIL,
    ),
    Check(
        name="pod-resources",
        why="the agent learns there which pod the kubelet asks for",
        mend="systemctl restart kubelet; journalctl --unit=kubelet",
        find=agent.pod_resources,
        needs=(GPU_HOST, facts.SETTINGS, facts.POD_RESOURCES),
        unread=_FAIL,
    ),
    Check(
        name="other-plugins",
        why="another plugin gives out the same cards, and neither knows of the other's pods",
        mend='docs/operations.md, "Other programs that give out cards"',
        find=agent.other_plugins,
        needs=(GPU_HOST, facts.SETTINGS, facts.REGISTRY),
    ),
    Check(
        name="runtime",
        why="the agent asks the container runtime which containers run",
        mend="systemctl status containerd crio, or set gpustack_agent_cri_endpoint and run"
        " site.yml",
        find=agent.runtime,
        needs=(GPU_HOST, facts.SETTINGS, facts.RUNTIME),
        unread=_FAIL,
    ),
    Check(
        name="hook",
        why="a share gets this library, and is refused without it",
        mend="run site.yml with --tags gpustack_hook,gpustack_agent",
        find=agent.hook,
        needs=(GPU_HOST, facts.SETTINGS, facts.HOOK),
        unread=_FAIL,
    ),
    Check(
        name="mounts",
        why="a share's files lie on a tmpfs that gpustack-mount makes; without it no share starts",
        mend="systemctl restart gpustack-mount; journalctl --unit=gpustack-mount",
        find=agent.mounts,
        needs=(GPU_HOST, facts.SETTINGS, facts.MOUNTS),
        unread=_FAIL,
    ),
    Check(
        name="credentials",
        why="with them the agent asks the API server: once they end, no new pod gets its cards",
        mend="systemctl restart kubelet renews the kubelet's own; else run site.yml, or kubeadm"
        " certs renew",
        find=credentials.credentials,
        needs=(GPU_HOST, facts.SETTINGS, facts.KUBECONFIG),
        unread=_FAIL,
    ),
    Check(
        name="tokens",
        why="with them extender and own scheduler ask the API server: once they end, pods with"
        " cards wait",
        mend="journalctl --unit=gpustack-token.service; run site.yml with --tags gpustack_extender",
        find=credentials.tokens,
        needs=(facts.TOKENS,),
        unread=_FAIL,
    ),
    Check(
        name="scheduler-entry",
        why="a scheduler without it binds pods with cards that no extender chose, and each fails"
        " with Undecided",
        mend="run site.yml with --tags kube_scheduler",
        find=schedulers.entries,
        needs=(facts.SCHEDULERS,),
        unread=_FAIL,
    ),
    Check(
        name="metrics",
        why="other machines read metrics there by certificate or token; alerts need them",
        mend='docs/monitoring.md, "Metrics on other machines"',
        find=metrics.addresses,
        needs=(facts.METRICS,),
        unread=_FAIL,
    ),
)
