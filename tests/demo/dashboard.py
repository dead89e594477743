"""The extender's page, for the browser of the demo's user.

The extender lets only its own host look without a certificate, so the demo's control-plane host
passes its address on, under which the demo's inventory lets it be asked. A real cluster's operator
uses `ssh -L` in its place.
"""

import urllib.request

from tests.cluster.site import Site
from tests.testbed import description

_PORT = 8080
_EXTENDER = "127.0.0.1:3456"
_PROXY = "/usr/lib/systemd/systemd-socket-proxyd"
_SECONDS = 10


def open_page(site: Site) -> str:
    """Make the page reachable from this machine; return its address once it answers.

    Raises:
        OSError: it does not answer.
    """
    address = f"{description.load(site.name).control_plane.address}:{_PORT}"
    site.on(
        "cp1",
        "systemd-run",
        "--unit=demo-dashboard",
        f"--socket-property=ListenStream={address}",
        _PROXY,
        _EXTENDER,
    )
    url = f"http://{address}/"
    with urllib.request.urlopen(url, timeout=_SECONDS) as response:
        response.read()
    return url
