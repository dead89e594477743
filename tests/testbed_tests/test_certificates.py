import base64
import json
import pathlib
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.x509 import oid

from tests.testbed import description
from tests.testbed.host_files import certificates, files, pki


def names(pair: certificates.Pair) -> tuple[str, set[str]]:
    subject = x509.load_pem_x509_certificate(pair.certificate).subject
    common = subject.get_attributes_for_oid(oid.NameOID.COMMON_NAME)[0].value
    groups = subject.get_attributes_for_oid(oid.NameOID.ORGANIZATION_NAME)
    return str(common), {str(group.value) for group in groups}


def store(folder: pathlib.Path, name: str, pair: certificates.Pair) -> tuple[str, str]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return str(certificate), str(key)


def shake_hands(
    folder: pathlib.Path,
    authority: certificates.Authority,
    client: certificates.Pair,
    server_name: str,
) -> dict[str, object]:
    """Return a TLS server's knowledge of its client over a real connection."""
    root = authority.pair.certificate.decode()
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=root)
    serving.verify_mode = ssl.CERT_REQUIRED
    serving.load_cert_chain(*store(folder, "server", authority.server("api", ("127.0.0.1",))))
    asking = ssl.create_default_context(cadata=root)
    asking.load_cert_chain(*store(folder, "client", client))
    seen: list[dict[str, object]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            try:
                with serving.wrap_socket(connection, server_side=True) as secured:
                    seen.append(dict(secured.getpeercert() or {}))
                    secured.sendall(b"hello")
            except ssl.SSLError:
                connection.close()

        server = threading.Thread(target=serve)
        server.start()
        try:
            with (
                socket.create_connection(listener.getsockname()) as plain,
                asking.wrap_socket(plain, server_hostname=server_name) as secured,
            ):
                assert secured.recv(5) == b"hello"
        finally:
            server.join()
    return seen[0]


def test_server_and_client_know_each_other_by_the_authority(tmp_path: pathlib.Path) -> None:
    authority = certificates.authority("test")
    client = authority.client("system:node:gpu1", ("system:nodes",))

    seen = shake_hands(tmp_path, authority, client, "127.0.0.1")

    assert seen["subject"] == (
        (("organizationName", "system:nodes"),),
        (("commonName", "system:node:gpu1"),),
    )


def test_a_client_of_another_authority_is_turned_away(tmp_path: pathlib.Path) -> None:
    stranger = certificates.authority("test").client("kubernetes-admin", ("system:masters",))

    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake_hands(tmp_path, certificates.authority("test"), stranger, "127.0.0.1")


def test_a_server_is_only_good_for_its_names(tmp_path: pathlib.Path) -> None:
    authority = certificates.authority("test")

    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(tmp_path, authority, authority.client("operator"), "elsewhere")


def test_a_kubeconfig_carries_all_that_a_client_needs() -> None:
    authority = certificates.authority("test")
    pair = authority.client("operator")

    text = json.loads(
        certificates.kubeconfig("https://host:6443", authority.pair.certificate, "operator", pair)
    )

    context = text["contexts"][0]["context"]
    assert text["current-context"] == text["contexts"][0]["name"]
    assert context["cluster"] == text["clusters"][0]["name"]
    assert context["user"] == text["users"][0]["name"]
    assert text["clusters"][0]["cluster"]["server"] == "https://host:6443"
    user = text["users"][0]["user"]
    assert base64.b64decode(user["client-key-data"]) == pair.key


def test_a_gpu_host_has_the_nodes_identity_and_no_other_secret(
    testbed: description.Testbed,
) -> None:
    made = pki.make(testbed)

    entries = made.gpu_host_files(testbed.host("gpu2"))

    secrets = [entry for entry in entries if isinstance(entry, files.File) and entry.mode == 0o600]
    assert [entry.path for entry in secrets] == ["/etc/kubernetes/kubelet.conf"]
    user = json.loads(secrets[0].data)["users"][0]["user"]
    pair = certificates.Pair(certificate=base64.b64decode(user["client-certificate-data"]), key=b"")
    assert names(pair) == ("system:node:gpu2", {"system:nodes"})


def test_a_control_plane_has_what_kubeadm_makes(testbed: description.Testbed) -> None:
    made = pki.make(testbed).control_plane_files(testbed.control_plane)
    entries = {entry.path: entry for entry in made}

    kubeadm = {"admin.conf", "scheduler.conf", "controller-manager.conf", "pki/ca.crt",
               "pki/ca.key", "pki/apiserver.crt", "pki/apiserver.key", "pki/sa.key", "pki/sa.pub",
               "pki/apiserver-kubelet-client.crt", "pki/apiserver-kubelet-client.key"}  # fmt: skip
    assert {f"/etc/kubernetes/{name}" for name in kubeadm} <= entries.keys()
    open_keys = [path for path, entry in entries.items()
                 if path.endswith((".key", ".conf")) and entry.mode != 0o600]  # fmt: skip
    assert open_keys == []


def test_the_administrators_files_are_for_the_administrator_only(
    testbed: description.Testbed,
) -> None:
    pki.make(testbed)

    assert testbed.kubeconfig.stat().st_mode & 0o077 == 0
    assert (testbed.state / "pki").stat().st_mode & 0o077 == 0
