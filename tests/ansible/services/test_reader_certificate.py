"""The certificate by which an extender reads agents' metrics, and decides nothing."""

import pathlib
import ssl

from tests.ansible.services.test_certificates import folder, make, pytestmark, shaken
from tests.testbed.host_files.certificates import authority

__all__ = ["folder", "pytestmark"]


def test_an_agent_lets_the_extender_read(folder: pathlib.Path) -> None:
    make(folder)
    agents = authority("cluster")
    own = agents.server("gpu1", ("192.0.2.1",)).store(folder, "agent")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    server.load_cert_chain(own.certificate, own.key)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cadata=agents.pair.certificate.decode())
    client.load_cert_chain(folder / "reader.crt", folder / "reader.key")
    assert shaken(server, client, "192.0.2.1") == "gpustack-extender-reader"
