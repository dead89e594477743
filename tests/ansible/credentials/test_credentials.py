"""Every credential that the roles make ends."""

import re

import jinja2
import pytest

from tests.ansible import layout

NEVER_ENDS = "kubernetes.io/service-account-token"
TEMPLATES = sorted((layout.ROOT / "roles/cluster_objects/templates").glob("*.j2"))


def objects(kind: str) -> list[str]:
    """Return the texts of the cluster's objects of a kind that the roles lay."""
    documents = [part for file in TEMPLATES for part in re.split(r"(?m)^---$", file.read_text())]
    return [each for each in documents if re.search(rf"(?m)^kind: {kind}$", each)]


def test_no_token_is_without_an_end() -> None:
    made = [
        file
        for role in (layout.ROOT / "roles").iterdir()
        for file in role.rglob("*")
        if file.is_file() and NEVER_ENDS.encode() in file.read_bytes()
    ]
    assert made == []
    assert objects("Secret") == []
    told = (layout.ROOT / "docs/upgrades.md").read_text("utf-8")
    table = told.partition("**Every credential")[2].partition("\n\n**")[0]
    assert table.count("\n| ") > 5
    assert "never" not in table


def test_a_rollback_puts_the_kubeconfig_of_before_back() -> None:
    # 0.1.0 reads a token file once, and would stand still when that token has ended
    kept = layout.load(layout.ROOT / "roles/host_snapshot/vars/main.yml")["__host_snapshot_own"]
    written = layout.load(layout.ROOT / "roles/gpustack_extender/tasks/tokens.yml")
    (kubeconfig,) = [
        task["ansible.builtin.copy"]["dest"]
        for task in written
        if task["name"] == "Write the kubeconfig"
    ]
    assert kubeconfig in kept["control_plane"]


@pytest.mark.parametrize("account", objects("ServiceAccount"))
def test_no_pod_is_given_an_accounts_token(account: str) -> None:
    assert "automountServiceAccountToken: false" in account.splitlines()


@pytest.mark.parametrize("rights", objects("Role"))
def test_an_account_asks_for_tokens_of_its_own_alone(rights: str) -> None:
    (name,) = re.findall(r"(?m)^  name: (.+)$", rights)
    rule = rights.partition("resources: [serviceaccounts/token]")[2]
    assert rule.lstrip().startswith(f"resourceNames: [{name}]\n    verbs: [create]\n")


@pytest.mark.parametrize(
    ("hours", "allowed"), [(0, False), (1, True), ("72", True), (720, True), (721, False)]
)
def test_preflight_refuses_tokens_without_an_end(hours: object, allowed: bool) -> None:
    (check,) = (
        task["ansible.builtin.assert"]["that"]
        for task in layout.load(layout.ROOT / "roles/gpustack_extender/tasks/preflight.yml")
        if "token_hours" in str(task.get("ansible.builtin.assert"))
    )
    condition = jinja2.Environment(autoescape=True).compile_expression(check)
    assert condition(gpustack_extender_token_hours=hours) is allowed
