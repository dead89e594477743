"""A host without a good token gets one by the controller, bound to a Secret of that host."""

import collections.abc
import contextlib
import pathlib
import re
import time
from typing import Any

import pytest

from tests.ansible import cluster_server, layout, plugins
from tests.ansible.credentials import host_tokens
from tests.ansible.credentials.host_tokens import ACCOUNT, token
from tests.ansible.credentials.token_cluster import REQUESTS, SECRETS, TokenCluster
from tests.ansible.rendering import run_role, words

module = plugins.load("roles/cluster_objects/library/cluster_objects_token.py")
claims = plugins.load("roles/gpustack_extender/files/tokens/claims.py")
NAME = module.secret_name(ACCOUNT, "cp1")
SECRET = f"{SECRETS}/{NAME}"


def bound(left: float, name: str = NAME, uid: str = "uid-0") -> str:
    """Return a token of a host's Secret that ends in so many hours of 72."""
    return token(left, secret={"name": name, "uid": uid})


def there() -> TokenCluster:
    """Return a cluster that has the host's Secret."""
    return TokenCluster(objects={SECRET: {"kind": "Secret", "metadata": {"uid": "uid-0"}}})


Give = collections.abc.Callable[..., tuple[bool, str]]


@contextlib.contextmanager
def giving(folder: pathlib.Path, cluster: TokenCluster) -> collections.abc.Iterator[Give]:
    """Yield what asks for the host's token."""
    with cluster_server.serving(folder, cluster.objects, answering=cluster.answer) as kubeconfig:

        def give(present: str = "", *, check: bool = False, **changes: Any) -> tuple[bool, str]:
            params = {
                "kubeconfig": str(kubeconfig), "namespace": "kube-system", "account": ACCOUNT,
                "host": "cp1", "seconds": 72 * 3600, "present": present, "replace": False,
                **changes,
            }  # fmt: skip
            found: tuple[bool, str] = module.give(module.Cluster(params), params, check=check)
            return found

        yield give


def test_a_fresh_host_gets_a_token_of_a_secret_of_its_own(tmp_path: pathlib.Path) -> None:
    cluster = TokenCluster()
    with giving(tmp_path, cluster) as give:
        assert give(check=True) == (True, "")
        assert cluster.asked == []
        changed, given = give()
        assert (changed, [given]) == (True, cluster.given)
        made = cluster.objects[SECRET]
        assert (made["type"], made.get("data")) == ("Opaque", None)
        assert claims.read(given)[2:4] == (NAME, made["metadata"]["uid"])
        assert give(f"{given}\n") == (False, "")
    assert cluster.asked == [("POST", SECRETS), ("POST", REQUESTS)]


@pytest.mark.parametrize(
    ("present", "user", "kept"),
    [
        (bound(72), USER := TokenCluster().user, True),
        (bound(25), USER, True),
        (bound(23), USER, False),  # the timer has failed for a day
        (bound(-1), USER, False),
        (bound(72), "", False),  # the server's key is another by now, say
        (bound(72), f"{USER}-2", False),
        (bound(72, uid="of-a-secret-that-is-gone"), USER, False),
        (bound(72, name=module.secret_name(ACCOUNT, "cp2")), USER, False),
        ("torn", USER, False),
    ],
)
def test_a_host_keeps_a_token_that_lasts_and_is_its_own(
    tmp_path: pathlib.Path, present: str, user: str, kept: bool
) -> None:
    cluster = there()
    cluster.user = user
    with giving(tmp_path, cluster) as give:
        changed, given = give(present)
    assert changed is not kept
    assert bool(given) is not kept
    assert cluster.asked == ([] if kept else [("POST", REQUESTS)]), "the Secret stays"


def test_a_replaced_token_ends_with_its_secret(tmp_path: pathlib.Path) -> None:
    cluster, present = there(), bound(72)
    with giving(tmp_path, cluster) as give:
        assert give(present, replace=True, check=True) == (True, "")
        assert cluster.objects[SECRET]["metadata"]["uid"] == "uid-0"
        _, given = give(present, replace=True)
    assert cluster.objects[SECRET]["metadata"]["uid"] == "uid-1"
    assert claims.read(given)[2:4] == (NAME, "uid-1")


@pytest.mark.parametrize(
    "host", ["cp1", "CP_1.example.org", "-", "x" * 300, "192.0.2.1", "ü", "node/1", "a" * 39 + "-b"]
)
def test_every_hosts_secret_has_a_name_that_the_cluster_takes(host: str) -> None:
    name = module.secret_name("gpustack-scheduler", host)
    # DNS subdomain: https://kubernetes.io/docs/concepts/overview/working-with-objects/names
    assert re.fullmatch(r"gpustack-scheduler\.[a-z0-9]([a-z0-9-]*[a-z0-9])?", name)
    assert len(name) < 80


def test_hosts_that_are_alike_have_secrets_of_their_own() -> None:
    hosts = ("cp_1", "cp-1", "CP-1", "x" * 50, "x" * 51)
    assert len({module.secret_name(ACCOUNT, each) for each in hosts}) == len(hosts)


@pytest.mark.parametrize("left", [-1, 23.9, 24.1, 72])
def test_controller_and_host_call_the_same_token_late(left: float) -> None:
    found, now = bound(left), time.time()
    assert module.lasts(found, NAME, "uid-0", now) is not claims.read(found).is_late(now)


def test_the_roles_mean_the_same_folder() -> None:
    folders = {
        layout.load(layout.ROOT / f"roles/{role}/vars/main.yml")[name]
        for role, name in (
            ("cluster_objects", "__cluster_objects_token_folder"),
            ("gpustack_extender", "__gpustack_extender_tokens"),
        )
    }
    assert len(folders) == 1
    labels = layout.load(layout.ROOT / "roles/cluster_objects/vars/main.yml")
    named = labels["__cluster_objects_token_labels"].partition("=")[::2]
    assert dict([named]) == module.LABELS


def give_role(
    folder: pathlib.Path, cluster: TokenCluster, *options: str, **more: Any
) -> tuple[int, str]:
    """Run the role's part for the host `localhost`; returns its status and all that it says."""
    with cluster_server.serving(folder, cluster.objects, answering=cluster.answer) as kubeconfig:
        variables = {
            "cluster_objects_kubeconfig": str(kubeconfig),
            "cluster_objects_token_accounts": [ACCOUNT],
            "__cluster_objects_token_folder": str(folder / "tokens"),
            **more,
        }
        done = run_role(folder, "cluster_objects", "tokens", variables, *options)
    return done.returncode, words(done)


@pytest.mark.long
def test_no_words_of_a_run_show_a_token(tmp_path: pathlib.Path) -> None:
    cluster = TokenCluster()
    (tmp_path / "tokens").mkdir()
    before = host_tokens.token(-1)
    (tmp_path / "tokens" / ACCOUNT).write_text(before)
    status, said = give_role(tmp_path, cluster, "-vvv", "--diff")
    assert status == 0, said
    for each in (before, *cluster.given):
        assert each.split(".")[1] not in said
    assert len(cluster.given) == 1
    name = module.secret_name(ACCOUNT, "localhost")
    assert [*cluster.objects] == [f"{SECRETS}/{name}"]


# A group that isn't there stops the run where the file has its content and not yet its readers.
@pytest.mark.long
def test_a_new_token_is_at_no_time_a_file_for_everybody(tmp_path: pathlib.Path) -> None:
    cluster, tokens = TokenCluster(), tmp_path / "tokens"
    with cluster_server.serving(tmp_path, cluster.objects, answering=cluster.answer) as kubeconfig:
        variables = {
            "cluster_objects_kubeconfig": str(kubeconfig),
            "__cluster_objects_token_folder": str(tokens),
            "__gpustack_extender_tokens": str(tokens),
            "__gpustack_extender_token_renewal": str(tmp_path / "renewal"),
            "__gpustack_extender_token_groups": {ACCOUNT: "no-such-group"},
            "__gpustack_extender_token_settings": {},
            "gpustack_extender_kubeconfig": {},
        }
        done = run_role(tmp_path, "gpustack_extender", "tokens", variables)
    assert done.returncode != 0
    assert len(cluster.given) == 1, words(done)
    assert not any(file.read_text() for file in tokens.iterdir())


@pytest.mark.long
def test_a_server_that_gives_no_tokens_is_named(tmp_path: pathlib.Path) -> None:
    cluster = TokenCluster(status=404)
    status, said = give_role(tmp_path, cluster)
    assert status != 0
    assert "gives no token: gpustack-extender on localhost: NotFoundError: 404" in said
    assert "its --service-account-issuer" in said
