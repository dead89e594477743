"""KubeClient against the fake API server, over real sockets."""

import base64
import contextlib
import datetime
import functools
import ipaddress
import json
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
import urllib3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from urllib3.util.ssl_ import create_urllib3_context

from gpustack.adapters import kube
from gpustack.adapters.kube import listing
from tests.fakes.kube_api import FakeKubeApi
from tests.testbed.host_files import certificates

POD = "/api/v1/namespaces/default/pods/one"


def pod(name: str = "one", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": {}, "status": {"phase": "Pending"}}


def test_get_answers_the_object(api: FakeKubeApi, client: kube.KubeClient) -> None:
    api.create("pods", pod(labels={"app": "a"}))
    assert client.get(POD)["metadata"]["labels"] == {"app": "a"}
    assert api.asked("GET", POD)[0].headers["user-agent"].startswith("gpustack/")


def test_get_names_the_object_that_does_not_exist(client: kube.KubeClient) -> None:
    with pytest.raises(kube.KubeError, match='pods "one" not found') as caught:
        client.get(POD)
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    assert caught.value.not_found


def test_patch_adds_annotations_and_keeps_the_others(
    api: FakeKubeApi, client: kube.KubeClient
) -> None:
    created = api.create("pods", pod(annotations={"a": "1"}))
    body = {"metadata": {"uid": created["metadata"]["uid"], "annotations": {"b": "2"}}}
    client.patch(POD + "/status", body)
    client.patch(POD, {"metadata": {"annotations": {"c": "3"}}}, content_type=kube.MERGE_PATCH)
    assert api.get("pods", "one")["metadata"]["annotations"] == {"a": "1", "b": "2", "c": "3"}


def test_patch_refuses_another_pod_of_the_same_name(
    api: FakeKubeApi, client: kube.KubeClient
) -> None:
    before = api.create("pods", pod())
    with pytest.raises(kube.KubeError, match="immutable") as caught:
        client.patch(POD, {"metadata": {"uid": "another", "annotations": {"b": "2"}}})
    assert caught.value.status == 422
    assert api.get("pods", "one") == before


def test_binding_carries_annotations_and_preconditions(
    api: FakeKubeApi, client: kube.KubeClient
) -> None:
    metadata = api.create("pods", pod())["metadata"]
    binding = {
        "metadata": {
            "name": "one",
            "uid": metadata["uid"],
            "resourceVersion": "1",
            "annotations": {"card": "0"},
        },
        "target": {"kind": "Node", "name": "gpu1"},
    }
    with pytest.raises(kube.KubeError, match="ResourceVersion in precondition") as caught:
        client.post(POD + "/binding", binding)
    assert caught.value.conflict
    binding["metadata"]["resourceVersion"] = metadata["resourceVersion"]
    client.post(POD + "/binding", binding)
    bound = api.get("pods", "one")
    assert bound["spec"]["nodeName"] == "gpu1"
    assert bound["metadata"]["annotations"] == {"card": "0"}


def test_a_read_is_asked_again_when_its_connection_was_closed(
    api: FakeKubeApi, client: kube.KubeClient
) -> None:
    api.create("pods", pod())
    client.get(POD)
    api.faults.drop("GET", POD)
    assert client.get(POD)["metadata"]["name"] == "one"


@pytest.mark.parametrize(("times", "opened"), [(1, True), (2, False)])
def test_a_watch_is_asked_for_again_when_its_connection_was_closed(
    api: FakeKubeApi, client: kube.KubeClient, times: int, opened: bool
) -> None:
    client.get("/api/v1/pods")
    api.faults.drop("GET", "/pods$", times=times)
    params = {"watch": "1", "timeoutSeconds": "1"}
    with contextlib.ExitStack() as stack:
        if not opened:
            stack.enter_context(pytest.raises(kube.KubeUnavailable, match="GET /api/v1/pods"))
        stream = client.stream("/api/v1/pods", params, idle_seconds=5)
        assert stack.enter_context(stream).status == 200


def test_a_refusal_of_a_change_that_was_sent_twice_is_unavailable(
    api: FakeKubeApi, client: kube.KubeClient
) -> None:
    """The server applied the first try, its answer was lost, and then the right was taken away."""
    api.create("pods", pod())
    api.faults.drop("PATCH", POD, when="after")
    api.faults.fail("PATCH", POD, status=403)
    with pytest.raises(kube.KubeUnavailable, match="first try without an answer"):
        client.patch(POD, {"metadata": {"annotations": {"a": "b"}}})
    assert client.get(POD)["metadata"]["annotations"] == {"a": "b"}


def test_a_create_is_never_sent_twice(api: FakeKubeApi, client: kube.KubeClient) -> None:
    api.faults.drop("POST", "/events", when="after")
    event = {"metadata": {"generateName": "e-"}}
    with pytest.raises(kube.KubeUnavailable, match="POST"):
        client.post("/api/v1/namespaces/default/events", event)
    assert len(api.events()) == 1


def test_a_slow_server_is_unavailable_after_the_time_limit(
    api: FakeKubeApi, client: kube.KubeClient
) -> None:
    fault = api.faults.hold("GET", POD)
    began = time.monotonic()
    with pytest.raises(kube.KubeUnavailable, match="timed out"):
        client.get(POD, timeout_seconds=0.2)
    assert time.monotonic() - began < 2
    assert fault.gate is not None
    fault.gate.set()


def test_no_server_is_unavailable(tmp_path: Path) -> None:
    api = FakeKubeApi()
    path = api.write_kubeconfig(tmp_path / "kubeconfig")
    with api:
        pass
    with pytest.raises(kube.KubeUnavailable, match="GET /version"):
        kube.KubeClient.from_kubeconfig(path, timeout_seconds=2).get_raw("/version")


def test_an_error_that_is_no_status_object_keeps_its_text(
    api: FakeKubeApi, client: kube.KubeClient
) -> None:
    api.faults.fail("GET", POD, status=503, reason="")
    with pytest.raises(kube.KubeError) as caught:
        client.get(POD)
    assert caught.value.retryable


def test_a_token_from_the_kubeconfig_is_sent(api: FakeKubeApi, tmp_path: Path) -> None:
    path = api.write_kubeconfig(tmp_path / "kubeconfig", user={"token": "secret"})
    kube.KubeClient.from_kubeconfig(path).get_raw("/version")
    assert api.requests[-1].headers["authorization"] == "Bearer secret"


SERVER_5 = (
    "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], "
    "users: [{name: a, user: {}}], clusters: [{name: a, cluster: {server: 5}}]}"
)


@pytest.mark.parametrize("text", ["", "{", "[]", "kind: Config\nclusters: 1\n", SERVER_5])
def test_a_broken_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(kube.KubeConfigError, match=str(path)):
        kube.KubeClient.from_kubeconfig(path)


@pytest.mark.parametrize(
    "server", ["", "ftp://host", "http://", "https://a b:6443", "https://host:99999999"]
)
def test_a_kubeconfig_without_a_server_url_is_named_before_any_request(
    tmp_path: Path, server: object
) -> None:
    with FakeKubeApi() as api:
        path = api.write_kubeconfig(tmp_path / "kubeconfig", server=server)
    with pytest.raises(kube.KubeConfigError, match=r"server: .*write it as https://"):
        kube.KubeClient.from_kubeconfig(path)


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(kube.KubeConfigError, match=r"nowhere: .*No such file"):
        kube.KubeClient.from_kubeconfig(tmp_path / "nowhere")


def test_client_certificates_named_by_path_are_used(tmp_path: Path) -> None:
    authority = self_signed(tmp_path, "server")
    self_signed(tmp_path, "client")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    tls.load_verify_locations(tmp_path / "client.crt")
    tls.verify_mode = ssl.CERT_REQUIRED
    with FakeKubeApi(tls=tls) as api:
        known: dict[str, Any] = {"certificate-authority-data": base64.b64encode(authority).decode()}
        certificate = {
            "client-certificate": str(tmp_path / "client.crt"),
            "client-key": str(tmp_path / "client.key"),
        }
        right = api.write_kubeconfig(tmp_path / "right", user=certificate, **known)
        wrong = api.write_kubeconfig(tmp_path / "wrong", **known)
        raw = kube.KubeClient.from_kubeconfig(right).get_raw("/version")
        assert json.loads(raw)["minor"] == "34"
        with pytest.raises(kube.KubeUnavailable):
            kube.KubeClient.from_kubeconfig(wrong).get_raw("/version")


def test_a_certificate_that_names_no_authoritys_key_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ssl.VERIFY_X509_STRICT  # as from Python 3.13 on
    strict = functools.partial(create_urllib3_context, verify_flags=flags)
    monkeypatch.setattr(urllib3.connection, "create_urllib3_context", strict)
    authority = certificates.authority("kubernetes")
    stored = authority.server("127.0.0.1", ()).store(tmp_path, "server")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(stored.certificate, stored.key)
    (tmp_path / "ca.crt").write_bytes(authority.pair.certificate)
    known: dict[str, Any] = {"certificate-authority": str(tmp_path / "ca.crt")}
    with FakeKubeApi(tls=tls) as api:
        path = api.write_kubeconfig(tmp_path / "kubeconfig", **known)
        assert kube.KubeClient.from_kubeconfig(path).get_raw("/version")


def test_a_renewed_client_certificate_counts_for_the_next_connection(tmp_path: Path) -> None:
    authority = self_signed(tmp_path, "server")
    self_signed(tmp_path, "ended")
    self_signed(tmp_path, "renewed")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    tls.load_verify_locations(tmp_path / "renewed.crt")
    tls.verify_mode = ssl.CERT_REQUIRED
    (tmp_path / "kubelet").mkdir()
    certificate = {f"client-{what}": str(tmp_path / "kubelet" / what) for what in _PARTS}
    with FakeKubeApi(tls=tls) as api:
        known: dict[str, Any] = {"certificate-authority-data": base64.b64encode(authority).decode()}
        path = api.write_kubeconfig(tmp_path / "kubeconfig", user=certificate, **known)
        _bring(tmp_path, "ended")
        client = kube.KubeClient.from_kubeconfig(path)
        with pytest.raises(kube.KubeUnavailable):
            client.get_raw("/version")
        _bring(tmp_path, "renewed")
        assert json.loads(client.get_raw("/version"))["minor"] == "34"


_PARTS = {"certificate": "crt", "key": "key"}


def _bring(folder: Path, name: str) -> None:
    """Put a certificate and its key where the kubelet keeps its own."""
    for what, suffix in _PARTS.items():
        (folder / "kubelet" / what).write_bytes((folder / f"{name}.{suffix}").read_bytes())


def self_signed(folder: Path, name: str) -> bytes:
    """Write NAME.crt and NAME.key for 127.0.0.1; returns the certificate as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / f"{name}.crt").write_bytes(pem)
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b'{"items": 7, "metadata": {}}', b"{}"])
def test_an_answer_that_is_no_list_is_unavailable(raw: bytes) -> None:
    with pytest.raises(kube.KubeUnavailable, match="not the API's"):
        listing.decode_page(raw)
