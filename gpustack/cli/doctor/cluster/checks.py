"""The checks of a cluster, from outside, in the order of the output."""

from typing import Final

from gpustack.cli.doctor.check import Check, Severity
from gpustack.cli.doctor.cluster import control_plane, nodes, pods, records, trials
from gpustack.cli.doctor.cluster.facts import (
    LEASES,
    NODES,
    PODS,
    POLICIES,
    QUOTA,
    TRIALS,
    VERSION,
    ClusterFacts,
)

CHECKS: Final[tuple[Check[ClusterFacts], ...]] = (
    Check(
        name="api-server",
        why="extender and agents read and write everything through it; other versions are untried",
        mend='docs/reference/kubernetes.md, "Versions that are tried"',
        find=control_plane.api_server,
        needs=(VERSION,),
        unread=Severity.FAIL,
    ),
    Check(
        name="scheduler-lease",
        why="the extender that decides is the one beside the scheduler that leads; without a leader"
        " no pod is placed",
        mend="on a control-plane host: systemctl status kube-scheduler gpustack-scheduler, or"
        " kubectl -n kube-system get pods -l component=kube-scheduler",
        find=control_plane.leases,
        needs=(LEASES,),
    ),
    Check(
        name="admission-policies",
        why="without them users can write decisions, and requests that mean nothing, themselves",
        mend="run site.yml with --tags cluster_objects",
        find=control_plane.policies,
        needs=(POLICIES,),
    ),
    Check(
        name="quota",
        why="one that can't be read leaves the last one in force, or every pod is refused; a model"
        " that it doesn't name is refused",
        mend='edit the ConfigMap; docs/reference/pods.md, "Quota"',
        find=pods.quota,
        needs=(QUOTA,),
    ),
    Check(
        name="node-label",
        why="site.yml marks GPU hosts by it, and DaemonSets for GPU hosts select it",
        mend="run site.yml",
        find=nodes.labels,
        needs=(NODES,),
        unread=Severity.FAIL,
    ),
    Check(
        name="node-ready",
        why="a node that isn't ready, or is cordoned, takes no new pods, and its cards stay idle",
        mend="on that host: systemctl status kubelet; journalctl --unit=kubelet",
        find=nodes.ready,
        needs=(NODES,),
    ),
    Check(
        name="node-record",
        why="the extender knows a node's cards by this record alone, and places nothing on a node"
        " without one",
        mend="on that host: gpustack doctor --host; journalctl --unit=gpustack-agent",
        find=records.records,
        needs=(NODES,),
    ),
    Check(
        name="node-capacity",
        why="the scheduler counts these amounts: where they are too small pods wait, where they are"
        " too large it offers nodes that the extender refuses",
        mend="on that host: systemctl restart gpustack-agent; journalctl --unit=gpustack-agent",
        find=nodes.capacity,
        needs=(NODES,),
    ),
    Check(
        name="node-cards",
        why="a card that is closed takes no new pods; those that run on it may fail",
        mend='on that host: gpustack card list; docs/troubleshooting.md, "A card fails"',
        find=nodes.cards,
        needs=(NODES,),
    ),
    Check(
        name="node-pools",
        why="a quota with pools refuses every node that is in none of them",
        mend="set cluster_objects_gpu_pool for the host, or mend the quota, and run site.yml",
        find=nodes.pools,
        needs=(NODES,),
    ),
    Check(
        name="other-plugins",
        why="another plugin gives out the same cards, and neither knows of the other's pods",
        mend='docs/operations.md, "Other programs that give out cards"',
        find=nodes.other_plugins,
        needs=(NODES,),
    ),
    Check(
        name="pod-requests",
        why="the policies would refuse these pods today: when their controller makes them anew,"
        " none comes",
        mend='change the pod\'s template; docs/operations.md, "What the admission policies refuse"',
        find=pods.policy,
        needs=(PODS,),
    ),
    Check(
        name="pod-decisions",
        why="cards that such a pod uses are not counted, and may be given to another",
        mend="delete the pod, so that its controller makes another, which the extender places",
        find=pods.decisions,
        needs=(PODS, NODES),
    ),
    Check(
        name="pods-waiting",
        why="these pods have no cards",
        mend="gpustack explain NAMESPACE/POD",
        find=pods.waiting,
        needs=(PODS,),
    ),
)

TRIAL_CHECKS: Final[tuple[Check[ClusterFacts], ...]] = tuple(
    Check(
        name=name,
        why="what users get there isn't what the scheduler counts, or it doesn't run at all",
        mend="on that host: gpustack doctor --host; journalctl -u gpustack-agent",
        find=find,
        needs=(NODES, PODS, TRIALS),
    )
    for name, find in (("share-pods", trials.shares), ("whole-card-pods", trials.whole_cards))
)
"""Those for which pods are run."""
