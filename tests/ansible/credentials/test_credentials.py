"""Every credential that the roles make ends, but for two tokens that the documents name."""

import re

import pytest

from tests.ansible import layout

NEVER_ENDS = "kubernetes.io/service-account-token"
TEMPLATES = sorted((layout.ROOT / "roles/cluster_objects/templates").glob("*.j2"))


def objects(kind: str) -> list[str]:
    """Return the texts of the cluster's objects of a kind that the roles lay."""
    documents = [part for file in TEMPLATES for part in re.split(r"(?m)^---$", file.read_text())]
    return [each for each in documents if re.search(rf"(?m)^kind: {kind}$", each)]


def test_tokens_without_an_end_are_those_that_the_documents_name() -> None:
    names = layout.load(layout.ROOT / "roles/cluster_objects/vars/main.yml")
    made = {
        names[variable]
        for text in objects("Secret")
        for variable in re.findall(r"(?m)^  name: [{][{] (\w+) [}][}]$", text)
        if NEVER_ENDS in text
    }
    told = (layout.ROOT / "docs/upgrades.md").read_text("utf-8")
    assert made == set(re.findall(r"\(Secret `([a-z-]+)`\) \| \*\*never\*\*", told))
    assert len(objects("Secret")) == len(made), "a Secret of another kind: say when it ends"


@pytest.mark.parametrize("account", objects("ServiceAccount"))
def test_no_pod_is_given_an_accounts_token(account: str) -> None:
    assert "automountServiceAccountToken: false" in account.splitlines()
