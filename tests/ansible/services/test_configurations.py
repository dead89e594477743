"""The daemons' schemas accept the roles' files, which set every value of theirs."""

import itertools
import json
import pathlib
import re
from typing import Any

import pytest
import yaml

from gpustack.wire import config, schemas
from gpustack.wire.keys import Keys
from gpustack.wire.kube import mount_paths, node_condition
from gpustack.wire.nodes import MODEL_LABEL
from tests.ansible import layout, rendering

pytestmark = pytest.mark.long

# Named by the role itself, not by a variable, or derived from the site's scheduler.
FIXED = {"agent": {"node_name"}, "extender": {"tls", "decision_seconds"}}


@pytest.mark.parametrize("daemon", ["agent", "extender"])
def test_the_daemon_accepts_its_rendered_configuration(rendered: pathlib.Path, daemon: str) -> None:
    loaded = config.load_config(rendered / f"{daemon}.yml", daemon)
    assert loaded["domain"] == "tencent.com"


@pytest.mark.parametrize("daemon", ["agent", "extender"])
def test_a_rendered_configuration_sets_every_value_to_its_default(
    rendered: pathlib.Path, daemon: str
) -> None:
    written = yaml.safe_load((rendered / f"{daemon}.yml").read_text("utf-8"))
    for name in FIXED[daemon]:
        assert written.pop(name)
    assert written == {
        name: value for name, value in defaults(daemon).items() if name not in FIXED[daemon]
    }


def defaults(daemon: str) -> dict[str, Any]:
    # The one value without a default: the role takes it from the bundle.
    text = "hook: {version: 0.1.0-01234567}" if daemon == "agent" else ""
    return config.parse_config(text, schemas.load(daemon), pathlib.Path("least.yml"))


def test_the_policy_is_the_one_that_the_original_documents(rendered: pathlib.Path) -> None:
    policy = json.loads((rendered / "policy.json").read_text("utf-8"))
    assert policy == {
        "kind": "Policy",
        "apiVersion": "v1",
        "predicates": [
            {"name": name}
            for name in (
                "PodFitsHostPorts", "PodFitsResources", "NoDiskConflict", "MatchNodeSelector",
                "HostName",
            )
        ],
        "priorities": [
            {"name": "BalancedResourceAllocation", "weight": 1},
            {"name": "ServiceSpreadingPriority", "weight": 1},
        ],
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:3456/scheduler",
                "apiVersion": "v1beta1",
                "filterVerb": "predicates",
                "enableHttps": False,
                "nodeCacheCapable": False,
            }
        ],
        "hardPodAffinitySymmetricWeight": 10,
        "alwaysCheckAllPredicates": False,
    }  # fmt: skip


def test_the_scheduler_is_given_exactly_the_entry_of_the_contract(rendered: pathlib.Path) -> None:
    text = (rendered / "configuration.yaml").read_text("utf-8")
    configuration = yaml.safe_load(text)
    assert configuration["percentageOfNodesToScore"] == 100
    folder = "/etc/gpustack/pki/scheduler"
    assert configuration["extenders"] == [
        {
            "urlPrefix": "https://127.0.0.1:3456/scheduler",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "bindVerb": "bind",
            "preemptVerb": "preempt",
            "weight": 5,
            "nodeCacheCapable": True,
            "ignorable": False,
            "httpTimeout": "10s",
            "managedResources": [
                {"name": f"tencent.com/vcuda-{kind}", "ignoredByScheduler": False}
                for kind in ("core", "memory")
            ],
            "enableHTTPS": True,
            "tlsConfig": {
                "caFile": f"{folder}/ca.crt",
                "certFile": f"{folder}/client.crt",
                "keyFile": f"{folder}/client.key",
            },
        }
    ]


def test_the_extender_lets_only_the_scheduler_decide(rendered: pathlib.Path) -> None:
    written = yaml.safe_load((rendered / "extender.yml").read_text("utf-8"))
    assert written["tls"]["client_name"] == "system:kube-scheduler"
    assert written["tls"]["client_ca"] == "/etc/gpustack/pki/ca.crt"


def test_the_extender_may_do_what_it_needs_and_nothing_else(rendered: pathlib.Path) -> None:
    objects = list(yaml.safe_load_all((rendered / "rbac.yml").read_text("utf-8")))
    rights = {
        (one["kind"], resource, verb)
        for one in objects
        if one["kind"] in ("Role", "ClusterRole")
        for rule in one["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    reading = ("get", "list", "watch")
    assert rights == {
        *(("ClusterRole", "nodes", verb) for verb in reading),
        *(("ClusterRole", "pods", verb) for verb in reading),
        ("ClusterRole", "pods/status", "patch"),
        ("ClusterRole", "pods/binding", "create"),
        ("ClusterRole", "events", "create"),
        *(("ClusterRole", "poddisruptionbudgets", verb) for verb in ("list", "watch")),
        *(("Role", "configmaps", verb) for verb in ("list", "watch")),
        ("Role", "serviceaccounts/token", "create"),
    }
    (role,) = (one for one in objects if one["kind"] == "Role")
    names = {rule["resources"][0]: rule["resourceNames"] for rule in role["rules"]}
    assert names == {"configmaps": ["gpuquota"], "serviceaccounts/token": ["gpustack-extender"]}


def test_tokens_go_before_their_accounts() -> None:
    """The cluster deletes the token with its account: a second deletion would fail."""
    removal = layout.ROOT / "roles/cluster_objects/tasks/remove.yml"
    first, _, accounts = yaml.safe_load(removal.read_text("utf-8"))[:3]
    assert first["ansible.builtin.import_tasks"] == "endless_tokens.yml"
    assert "from_yaml_all | reverse" in accounts["kubernetes.core.k8s"]["definition"]


POLICIES = layout.load(layout.ROOT / "roles/cluster_objects/vars/main.yml")[
    "__cluster_objects_policies"
]


@pytest.mark.parametrize("name", POLICIES)
def test_each_policy_is_bound_and_fails_closed(rendered: pathlib.Path, name: str) -> None:
    policy, binding = yaml.safe_load_all((rendered / f"{name}.yml").read_text("utf-8"))
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"] == {"policyName": name, "validationActions": ["Deny"]}


def test_decisions_are_guarded_on_every_way_to_write_them(rendered: pathlib.Path) -> None:
    policy, _ = yaml.safe_load_all((rendered / "gpustack-decisions.yml").read_text("utf-8"))
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert rule["operations"] == ["CREATE", "UPDATE"]
    assert rule["resources"] == ["pods", "pods/status", "pods/binding", "bindings"]


def test_the_policy_protects_the_paths_that_the_agent_protects() -> None:
    variables = layout.load(layout.ROOT / "roles/cluster_objects/vars/main.yml")
    reserved = {f"/{path}" for path in variables["__cluster_objects_reserved_paths"]}
    assert reserved == set(mount_paths.PROTECTED_PATHS)
    above = {f"/{path}" for path in variables["__cluster_objects_reserved_folders"]}
    assert {"/", *above} == mount_paths.PROTECTED_FOLDERS


_PARTS = ("", ".", "..", "...", "etc", "etcetera", "vcuda", "run", "var", "usr", "local", "nvidia",
          "ld.so.preload", "ldxso.preload", "limits", "hosts", "data", "proc", "self",
          "7")  # fmt: skip


def test_policy_and_agent_refuse_the_same_mounts(rendered: pathlib.Path) -> None:
    policy, _ = yaml.safe_load_all((rendered / "gpustack-requests.yml").read_text("utf-8"))
    (hiding,) = (each for each in policy["spec"]["variables"] if each["name"] == "hiding")
    patterns = re.findall(r"m[.]mountPath[.]matches[(]'([^']+)'[)]", hiding["expression"])
    assert len(patterns) == 2
    parts = itertools.chain.from_iterable(itertools.product(_PARTS, repeat=n) for n in range(1, 5))
    paths = {f"{lead}{'/'.join(each)}" for each in parts for lead in ("", "/")} - {""}
    refused = {path for path in paths if any(re.search(each, path) for each in patterns)}
    assert refused == {path for path in paths if mount_paths.hiding(path)}
    assert {"/", ".", "/etc", "etc/.", "//etc/vcuda/hosts", "/data/../etc"} <= refused
    assert {"/proc/self", "/proc/7/etc", "//proc/./self"} <= refused
    assert refused.isdisjoint({"/etc/hosts", "/etcetera", "/data/etc", "/etc/ldxso.preload"})
    assert refused.isdisjoint({"/proc", "/proc/limits", "/data/proc/self", "/etc/self"})


def test_every_run_renders_the_same_policies(tmp_path: pathlib.Path) -> None:
    """Python's sets have another order in each process, and Ansible's `union` makes one."""
    found = []
    for seed in "123":
        (tmp_path / seed).mkdir()
        folder = rendering.render(tmp_path / seed, settings={"PYTHONHASHSEED": seed})
        found.append([path.read_text("utf-8") for path in sorted(folder.glob("gpustack-*.yml"))])
    assert found[0]
    assert found[1:] == found[:1] * 2


def test_the_roles_write_the_names_that_the_programs_read() -> None:
    variables = layout.load(layout.ROOT / "roles/cluster_objects/vars/main.yml")
    keys = Keys("{{ cluster_objects_domain }}")
    assert variables["__cluster_objects_core_name"] == keys.vcuda_core
    assert variables["__cluster_objects_memory_name"] == keys.vcuda_memory
    assert variables["__cluster_objects_devices_name"] == keys.gpu_devices
    assert variables["__cluster_objects_condition"] == node_condition.TYPE
    assert variables["__cluster_objects_violations_name"] == keys.gpu_violations
    assert variables["__cluster_objects_model_label"] == MODEL_LABEL
