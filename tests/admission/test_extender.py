"""Which annotations the extender's account may write, and which the other accounts."""

import pytest

from tests.admission.site import PLAIN, PODS, Site, bind, notes, pod, refusal
from tests.control_plane.fleet import KEYS

pytestmark = pytest.mark.testbed


def test_the_extender_annotates_pods_and_nothing_else(site: Site) -> None:
    path = site.create(pod(metadata={"finalizers": ["example.org/any"], "labels": {"a": "b"}}))
    uid = site.admin.get(path)["metadata"]["uid"]
    decided = {KEYS.predicate_time: "1", KEYS.predicate_node: "gpu1", KEYS.idx_prefix + "0": "0"}
    body = notes(**decided, **{KEYS.gpu_assigned: "false"}, **{KEYS.gpu_retry: "1"})
    body["metadata"]["uid"] = uid
    status = f"{path}/status"
    assert site.patched(status, body, site.extender) == ""
    assert site.admin.get(path)["metadata"]["annotations"][KEYS.predicate_node] == "gpu1"
    assert site.patched(status, notes(**{KEYS.idx_prefix + "0": None}), site.extender) == ""
    image = {"spec": {"containers": [{"name": "main", "image": "evil"}]}}
    for part in ("", "/ephemeralcontainers", "/resize"):
        assert "forbidden" in site.patched(path + part, image, site.extender)
    site.patched(status, image, site.extender)
    assert site.admin.get(path)["spec"]["containers"][0]["image"] == "none"
    for change, said in (
        ({"metadata": {"labels": {"a": "c"}}}, "metadata.labels"),
        ({"metadata": {"labels": None}}, "metadata.labels"),
        ({"metadata": {"finalizers": None}}, "metadata.finalizers"),
        (notes(**{"example.org/other": "1"}), "metadata.annotations[example.org/other]"),
        (notes(**{KEYS.gpu_model: "T4"}), f"metadata.annotations[{KEYS.gpu_model}]"),
        ({"status": {"phase": "Failed"}}, "status: the scheduler extender"),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status: the sched"),
    ):
        assert said in site.patched(status, change, site.extender)
    assert "forbidden" in refusal(lambda: site.extender.post(PODS, pod()))
    site.patched(path, {"metadata": {"finalizers": None}})


def test_the_extender_patches_the_very_pod_and_version_that_it_knows(site: Site) -> None:
    path = site.pod()
    for metadata, code in (({"uid": "another"}, "422"), ({"resourceVersion": "1"}, "409")):
        body = {"metadata": {**metadata, "annotations": {KEYS.gpu_retry: "2"}}}
        assert code in site.patched(f"{path}/status", body, site.extender)


def test_the_extender_binds_with_its_own_annotations_only(site: Site) -> None:
    path = site.pod()
    mine = {KEYS.predicate_time: "1", KEYS.predicate_node: "gpu1", KEYS.idx_prefix + "0": "0"}
    foreign = bind(site.extender, path, annotations={**mine, "example.org/other": "1"})
    assert "metadata.annotations[example.org/other]" in foreign
    assert "metadata.labels" in bind(site.extender, path, labels={"a": "b"})
    assert bind(site.extender, path, annotations=mine) == ""
    assert site.admin.get(path)["spec"]["nodeName"] == "gpu1"


@pytest.mark.parametrize("count", [600, 1100])
def test_the_extender_writes_its_keys_on_a_pod_of_many_annotations(site: Site, count: int) -> None:
    path = site.create(pod(PLAIN, annotations={f"example.org/{at}": "" for at in range(count)}))
    foreign = notes(**{"example.org/0": "changed"})
    assert "metadata.annotations" in site.patched(f"{path}/status", foreign, site.extender)


def test_other_accounts_write_no_decision(site: Site) -> None:
    path = site.pod()
    for part in ("", "/status"):
        said = site.patched(path + part, notes(**{KEYS.idx_prefix + "99": "0"}))
        assert "only the scheduler extender and the node agent" in said
    assert bind(site.admin, path) == ""
    assert site.patched(f"{path}/status", notes(**{KEYS.gpu_assigned: "true"}), site.node) == ""
    assert site.patched(f"{path}/status", notes(**{KEYS.gpu_assigned: "false"}), site.other) != ""
