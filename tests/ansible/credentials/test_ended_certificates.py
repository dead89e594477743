"""An administrator's certificate or the API server's that has ended is named before any harm."""

import datetime
import json
import pathlib
import ssl

import pytest
import yaml

from tests.ansible import cluster_server
from tests.ansible.rendering import run_role, words
from tests.testbed.host_files import certificates

pytestmark = pytest.mark.long

DAY = datetime.timedelta(days=1)
ENDED = certificates.Validity(begins=-2 * DAY, ends=-DAY)
# as a real one answers a client whose certificate has ended
REFUSED = 401, {"kind": "Status", "status": "Failure", "message": "Unauthorized", "code": 401}


def with_user(kubeconfig: pathlib.Path, valid: certificates.Validity) -> None:
    """Give a kubeconfig's user a certificate."""
    authority = certificates.authority("cluster")
    user = authority.client("kubernetes-admin", ("system:masters",), valid=valid)
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    kubeconfig.write_bytes(
        certificates.kubeconfig(server, authority.pair.certificate, "admin", user)
    )


@pytest.mark.parametrize(
    ("valid", "why"),
    [
        (ENDED, "which has a certificate that ended on "),
        (certificates.LASTING, "which has a certificate or token that has ended, was revoked"),
    ],
)
def test_a_user_that_the_api_server_refuses_is_named(
    tmp_path: pathlib.Path, valid: certificates.Validity, why: str
) -> None:
    with cluster_server.serving(tmp_path, {}, answering=lambda *_: REFUSED) as kubeconfig:
        with_user(kubeconfig, valid)
        of_host = {"cluster_objects_admin_kubeconfig": str(kubeconfig)}
        done = run_role(tmp_path, "cluster_objects", "preflight", of_host)
        given = {"cluster_objects_kubeconfig": str(kubeconfig)}
        other = run_role(tmp_path, "cluster_objects", "preflight", given)
    assert done.returncode != 0
    said = words(done)
    assert f"refuses the user of {kubeconfig} of localhost, {why}" in said, done.stdout
    assert "kubeadm certs renew admin.conf" in said
    assert f"refuses the user of {kubeconfig} on the controller, {why}" in words(other)


def test_an_api_server_whose_certificate_has_ended_is_named(tmp_path: pathlib.Path) -> None:
    authority = certificates.authority("cluster")
    server = authority.server("localhost", ("127.0.0.1",), valid=ENDED).store(tmp_path, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate, server.key)
    with cluster_server.serving(tmp_path, {}, context=context) as kubeconfig:
        document = json.loads(kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        cluster["server"] = cluster["server"].replace("http:", "https:")
        (tmp_path / "ca.crt").write_bytes(authority.pair.certificate)
        cluster["certificate-authority"] = str(tmp_path / "ca.crt")
        kubeconfig.write_text(json.dumps(document))
        given = {"cluster_objects_kubeconfig": str(kubeconfig)}
        done = run_role(tmp_path, "cluster_objects", "preflight", given)
    said = words(done)
    assert done.returncode != 0
    assert f"The certificate of the API server {cluster['server']} has ended" in said, done.stdout
    assert "kubeadm certs renew apiserver on each control-plane host" in said


def test_an_api_server_that_is_away_is_named_with_its_kubeconfig(tmp_path: pathlib.Path) -> None:
    with cluster_server.serving(tmp_path, {}) as kubeconfig:
        pass
    given = {"cluster_objects_kubeconfig": str(kubeconfig)}
    done = run_role(tmp_path, "cluster_objects", "preflight", given)
    assert done.returncode != 0
    assert f"of {kubeconfig} on the controller gives no version" in words(done), done.stdout
