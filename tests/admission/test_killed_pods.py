"""The end of a pod that goes past its limits, as a real API server writes it."""

import pytest

from gpustack.agent.cluster.writes import PodWrites
from tests.admission.site import Site, bind, pod
from tests.cluster.kubectl import wait_for
from tests.waiting import running

pytestmark = pytest.mark.testbed


def test_a_killed_pod_has_no_condition_that_a_job_ignores(site: Site) -> None:
    """A Job may ignore the failures of pods with `DisruptionTarget`, and makes them anew for ever.

    Its pods have a finalizer until it has counted them.
    """
    asked = pod(metadata={"finalizers": ["example.org/any"]}, terminationGracePeriodSeconds=3600)
    path = site.create(asked)
    assert bind(site.admin, path) == ""
    writes = PodWrites(client=site.node)
    metadata = site.admin.get(path)["metadata"]
    names = {each: metadata[each] for each in ("uid", "namespace", "name")}
    writes.delete(**names)
    try:
        with running(writes.run):
            wait_for("its end", lambda: "deletionTimestamp" in site.admin.get(path)["metadata"])
            found = site.admin.get(path)
    finally:
        site.admin.patch(path, {"metadata": {"finalizers": None}})
    assert found["metadata"]["deletionGracePeriodSeconds"] == 1
    assert found["status"]["phase"] == "Pending", "it holds its cards until it has ended"
    types = [each["type"] for each in found["status"].get("conditions", ())]
    assert "DisruptionTarget" not in types
