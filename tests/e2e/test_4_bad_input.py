"""What is refused says which field, and changes nothing else."""

import collections.abc
import json

import pytest

from tests.cluster import workloads
from tests.cluster.kubectl import KubectlError
from tests.cluster.site import Site

pytestmark = pytest.mark.testbed


@pytest.fixture
def before(site: Site) -> collections.abc.Iterator[None]:
    """Check that a refusal leaves no pod behind."""
    names = {pod["metadata"]["name"] for pod in site.kubectl.items("pods")}
    yield
    assert {pod["metadata"]["name"] for pod in site.kubectl.items("pods")} == names


@pytest.mark.usefixtures("before")
@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({workloads.CORE: "150", workloads.MEMORY: "32"}, "tencent.com/vcuda-core"),
        ({workloads.CORE: "50"}, "tencent.com/vcuda-memory"),
        ({workloads.MEMORY: "32"}, "tencent.com/vcuda-core"),
    ],
    ids=["a core number that is no share and no whole card", "no memory", "no core"],
)
def test_a_request_that_means_nothing_is_refused_by_name(
    site: Site, limits: dict[str, str], named: str
) -> None:
    with pytest.raises(KubectlError) as refused:
        site.kubectl.create(workloads.pod("bad", limits))
    assert named in str(refused.value)


@pytest.mark.usefixtures("before")
def test_a_decision_written_by_a_user_is_refused_on_create(site: Site) -> None:
    notes = {"tencent.com/predicate-gpu-idx-0": "0"}
    with pytest.raises(KubectlError, match=r"tencent\.com/predicate-"):
        site.kubectl.create(workloads.pod("forged", workloads.SHARE, annotations=notes))


def test_a_decision_written_by_a_user_is_refused_on_annotate(site: Site) -> None:
    site.kubectl.apply(workloads.pod("honest", workloads.SHARE))
    site.running("honest")
    with pytest.raises(KubectlError, match=r"tencent\.com/predicate-"):
        site.kubectl.run(
            "annotate", "--overwrite", "pod", "honest", "tencent.com/predicate-gpu-idx-0=1"
        )


def test_a_binding_with_a_decision_by_another_account_is_refused(site: Site) -> None:
    pod = workloads.pod("unbound", workloads.SHARE, schedulerName="nobody")
    site.kubectl.apply(pod)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "unbound", "annotations": {"tencent.com/predicate-gpu-idx-0": "0"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu1"},
    }
    with pytest.raises(KubectlError, match=r"tencent\.com/predicate-"):
        site.kubectl.run(
            "create", "--raw", "/api/v1/namespaces/default/pods/unbound/binding", "-f", "-",
            stdin=json.dumps(binding),
        )  # fmt: skip
    assert "nodeName" not in site.kubectl.get("pod", "unbound")["spec"]


def test_a_body_that_is_not_json_is_refused_and_the_extender_goes_on(site: Site) -> None:
    # as the scheduler, whose certificate alone may ask for decisions
    post = """
import ssl, urllib.request, urllib.error
pki = "/etc/gpustack/pki"
context = ssl.create_default_context(cafile=f"{pki}/ca.crt")
context.load_cert_chain(f"{pki}/scheduler/client.crt", f"{pki}/scheduler/client.key")
try:
    url = "https://127.0.0.1:3456/scheduler/filter"
    asked = urllib.request.Request(url, b"not json", {"Content-Type": "application/json"})
    urllib.request.urlopen(asked, context=context)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
print(urllib.request.urlopen("http://127.0.0.1:3456/readyz").status)
"""
    refused, ready = site.on("cp1", "python3", "-c", post).strip().splitlines()
    assert refused.startswith("400 "), refused
    assert "JSON" in refused
    assert ready == "200"
