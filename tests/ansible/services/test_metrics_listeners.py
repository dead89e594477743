"""Metrics for other machines, as the roles configure them."""

import pathlib
from typing import Any

import pytest
import yaml

from extender import settings
from gpustack.adapters.web import remote_metrics
from gpustack.wire import config
from tests.ansible import layout, rendering

pytestmark = pytest.mark.long

ROLE = layout.ROOT / "roles" / "gpustack_extender"
REVIEWS = {"tokenreviews", "subjectaccessreviews"}
SITE: dict[str, Any] = {
    "gpustack_agent_metrics_listen": "0.0.0.0:5679",
    "gpustack_extender_metrics_listen": "192.0.2.10:3457",
    "gpustack_extender_metrics_client_ca": "/etc/kubernetes/pki/ca.crt",
    "gpustack_extender_metrics_tokens": False,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The roles' files where both daemons serve other machines."""
    return rendering.render(tmp_path_factory.mktemp("site"), **SITE)


def _section(folder: pathlib.Path, daemon: str) -> remote_metrics.RemoteMetrics | None:
    loaded = config.load_config(folder / f"{daemon}.yml", daemon)
    read, problems = remote_metrics.read(loaded["metrics"])
    assert problems == []
    return read


def _reviews(folder: pathlib.Path) -> set[str]:
    objects = yaml.safe_load_all((folder / "rbac.yml").read_text("utf-8"))
    (role,) = (each for each in objects if each["kind"] == "ClusterRole")
    rules = (rule for rule in role["rules"] if REVIEWS & set(rule["resources"]))
    return {name for rule in rules for name in rule["resources"] if rule["verbs"] == ["create"]}


@pytest.mark.parametrize("daemon", ["agent", "extender"])
def test_by_default_no_other_machine_is_served(rendered: pathlib.Path, daemon: str) -> None:
    assert _section(rendered, daemon) is None
    assert _reviews(rendered) == set()


def test_the_agent_shows_the_kubelets_certificate_and_takes_tokens(site: pathlib.Path) -> None:
    read = _section(site, "agent")
    assert read is not None
    assert (read.host, read.port, read.tokens, read.tls.client_ca) == ("0.0.0.0", 5679, True, None)
    kubelets = pathlib.Path("/var/lib/kubelet/pki/kubelet-server-current.pem")
    assert (read.tls.certificate, read.tls.key) == (kubelets, kubelets)


def test_the_extender_shows_its_own_certificate(site: pathlib.Path) -> None:
    read = _section(site, "extender")
    assert read is not None
    assert (read.host, read.port, read.tokens) == ("192.0.2.10", 3457, False)
    assert str(read.tls.certificate) == "/etc/gpustack/pki/extender.crt"
    assert str(read.tls.client_ca) == "/etc/kubernetes/pki/ca.crt"


def test_agents_are_asked_only_where_a_port_is_named(
    rendered: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert settings.load(rendered / "extender.yml").usage is None
    asking = rendering.render(tmp_path, gpustack_extender_usage_port=5679)
    usage = settings.load(asking / "extender.yml").usage
    assert usage is not None
    assert usage.port == 5679
    pki = pathlib.Path("/etc/gpustack/pki")
    assert (usage.tls.certificate, usage.tls.key) == (pki / "reader.crt", pki / "reader.key")
    assert str(usage.tls.ca) == "/etc/kubernetes/pki/ca.crt"


@pytest.mark.parametrize(
    ("site", "said"),
    [
        ({}, ""),
        ({"gpustack_extender_usage_port": 0, "gpustack_extender_usage_ca": "/nowhere"}, ""),
        ({"gpustack_extender_usage_ca": "/nowhere"}, "/nowhere, the authority of the agents'"),
        ({"kube_scheduler_form": "policy"}, "set gpustack_extender_usage_certificate"),
        (
            {"kube_scheduler_form": "policy", "gpustack_extender_usage_certificate": "/c"},
            "",
        ),
    ],
)
def test_preflight_asks_for_what_agents_are_asked_with(
    tmp_path: pathlib.Path, site: dict[str, Any], said: str
) -> None:
    ca = tmp_path / "ca.crt"
    ca.touch()
    variables = {
        "gpustack_extender_usage_port": 5679,
        "gpustack_extender_usage_ca": str(ca),
        **site,
    }
    done = rendering.run_role(tmp_path, "gpustack_extender", "preflight", variables)
    assert (done.returncode == 0) is (not said), done.stdout
    assert said in rendering.words(done)


def test_the_extender_may_review_tokens_only_where_they_count(
    site: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert _reviews(site) == set()
    taking = rendering.render(tmp_path, gpustack_extender_metrics_listen="[::]:3457")
    assert _reviews(taking) == REVIEWS


@pytest.mark.parametrize(
    ("listen", "name"),
    [("192.0.2.10:3457", "192.0.2.10"), ("[2001:db8::5]:3457", "2001:db8::5"), ("", ""),
     ("0.0.0.0:3457", ""), ("[::]:3457", "")],
)  # fmt: skip
def test_the_address_of_readers_is_a_name_of_the_certificate(
    tmp_path: pathlib.Path, listen: str, name: str
) -> None:
    site = {"gpustack_extender_metrics_listen": listen}
    names = rendering.text_of(
        tmp_path, "gpustack_extender", "__gpustack_extender_names | join(' ')", site
    )
    assert names.split() == ["localhost", "127.0.0.1", *([name] if name else [])]


@pytest.mark.parametrize(
    ("site", "allowed"),
    [
        ({}, True),
        ({"kube_scheduler_form": "policy"}, False),
        ({"kube_scheduler_form": "policy", "gpustack_extender_metrics_certificate": "/c"}, True),
        ({"kube_scheduler_form": "policy", "gpustack_extender_metrics_listen": ""}, True),
    ],
)
def test_preflight_asks_for_a_certificate_that_something_makes(
    tmp_path: pathlib.Path, site: dict[str, Any], *, allowed: bool
) -> None:
    variables = {"gpustack_extender_metrics_listen": "0.0.0.0:3457", **site}
    done = rendering.run_role(tmp_path, "gpustack_extender", "preflight", variables)
    assert (done.returncode == 0) is allowed, done.stdout
    if not allowed:
        assert "set gpustack_extender_metrics_certificate" in rendering.words(done)
