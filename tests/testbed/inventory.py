"""The inventory that Ansible reads: the groups of a customer's, and how to reach the hosts."""

import yaml

from tests.testbed import description


def text(bench: description.Bench) -> str:
    """Return ``inventory.yml`` of a bench.

    A host is entered by the PID of its init, looked up each time, as a reboot changes it.
    """
    groups = {role.value: {"hosts": _hosts(bench, role)} for role in description.Role}
    variables = {
        "ansible_connection": "community.docker.nsenter",
        "ansible_nsenter_pid": (
            "{{ lookup('ansible.builtin.file', '"
            f"{bench.state}/' ~ inventory_hostname ~ '.pid') | int }}}}"
        ),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    inventory = {"all": {"children": groups, "vars": variables}}
    return "---\n" + yaml.safe_dump(inventory, sort_keys=False, width=200)


def _hosts(bench: description.Bench, role: description.Role) -> dict[str, dict[str, str]]:
    return {host.name: {"bench_address": host.address} for host in bench.hosts if host.role is role}
