"""What drift.yml says of a site's hosts."""

import json
import pathlib

from tests.cluster.rollout import PlaybookError
from tests.cluster.site import Site


def differences(site: Site, folder: pathlib.Path, *arguments: str) -> dict[str, list[str]]:
    """Return the roles of what differs, by host.

    Args:
        site: whose hosts are compared.
        folder: for the report.
        arguments: of ansible-playbook.
    """
    report, status = folder / "drift.json", 0
    try:
        site.playbook("drift", "--check", f"--extra-vars=drift_report={report}", *arguments)
    except PlaybookError as error:
        status = error.status
    rows = json.loads(report.read_text())
    print(*rows, sep="\n")
    assert status == (2 if rows else 0)
    return {
        host: sorted(row["role"] for row in rows if row["host"] == host)
        for host in sorted({row["host"] for row in rows})
    }
