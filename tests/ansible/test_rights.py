"""An extender from before pods/status keeps its rights while a site is upgraded."""

from tests.ansible import plugins
from tests.control_plane import identity

filters = plugins.load("roles/cluster_objects/filter_plugins/cluster_objects_rights.py")


def test_a_right_to_change_pods_stays_until_all_extenders_are_new() -> None:
    new = identity.rbac_objects()
    upgraded = filters.rights(new, True)
    assert not filters.patches_pods(each for each in new if each["kind"] == "ClusterRole")
    assert filters.patches_pods(each for each in upgraded if each["kind"] == "ClusterRole")
    assert not filters.patches_pods(each for each in upgraded if each["kind"] == "Role")
    assert filters.rights(new, False) == new


def test_a_fresh_cluster_has_no_older_extender() -> None:
    assert not filters.patches_pods([])
    assert not filters.patches_pods([{"kind": "ClusterRole", "rules": None}])
