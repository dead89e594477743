"""An agent finds what the release after it has written: it leaves that alone and names it."""

import pytest

from gpustack.adapters import mapped
from tests.extender.client import eventually
from tests.fakes.kubelet import AdmissionError
from tests.simgpu_tests.machine import first_line
from tests.versions import tenant
from tests.versions.cluster import Cluster
from tests.versions.pods import minor_of, share, whole_card
from tests.versions.releases import NEXT_CARDS, NEXT_LAYOUT, NEXT_RECORDS, Releases
from tests.versions.test_matrix import SHARE_BYTES

pytestmark = pytest.mark.long

FILES = ("limits", "activity", "ledger")
# It allocates a quarter of its share now, and another one when it is told to.
TWICE = f"""
    enter()
    for _ in range(2):
        assert allocate({SHARE_BYTES} // 4)[0] == 0
        print(info()[1], flush=True)
        input()
"""


def test_files_of_the_release_after_are_left_alone_and_named(
    cluster: Cluster, releases: Releases
) -> None:
    ours, newer = releases["ours"], releases["next"]
    cluster.start_extender(ours)
    cluster.start_agent(newer, hook=newer)
    part, whole = cluster.schedule(share("part")), cluster.schedule(whole_card("whole"))
    answer = cluster.admit(part)
    cluster.admit(whole)
    folder = tenant.folder(answer, newer.paths)
    assert [mapped.read_layout(folder / name) for name in FILES] == [NEXT_LAYOUT] * 3
    with cluster.tenant(part, answer, newer, TWICE) as process:
        first_line(process)
        cluster.stop_agent()
        before = {name: (folder / name).read_bytes() for name in FILES}
        cluster.start_agent(ours, hook=ours)
        # Its cards are known all the same: by the runtime's word, and the kubelet's.
        another = cluster.schedule(share("another"))
        assert minor_of(another) == minor_of(part) != minor_of(whole)
        assert tenant.layouts(cluster.admit(another), ours.paths) == [ours.layout] * 3
        assert not cluster.fits(cluster.api.create("pods", share("waits")))
        assert {name: (folder / name).read_bytes() for name in FILES} == before
        assert process.stdin is not None
        print(file=process.stdin, flush=True)
        first_line(process)
    state = cluster.files.state
    assert (state / f"checkpoint.json.version-{NEXT_RECORDS}").exists()
    assert (state / f"health.json.version-{NEXT_CARDS}").exists()
    cluster.exit(part)
    with pytest.raises(AdmissionError, match=f"limits: layout version is {NEXT_LAYOUT}, .* newer"):
        cluster.restart(part)
    cluster.start_agent(newer, hook=newer)
    answer = cluster.restart(part)
    with cluster.tenant(part, answer, newer, TWICE) as process:
        first_line(process)
    for pod in (part, whole, another):
        cluster.end(pod)
    eventually(lambda: cluster.cards() == {0: 0, 1: 0})
