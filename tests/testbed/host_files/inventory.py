"""The inventory that Ansible reads: the groups of a customer's, and how to reach the hosts."""

import yaml

from tests.testbed import description


def text(testbed: description.Testbed) -> str:
    """Return ``inventory.yml`` of a testbed.

    A host is entered by the PID of its init, looked up each time, as a reboot changes it.
    """
    groups = {role.value: {"hosts": _hosts(testbed, role)} for role in description.Role}
    variables = {
        "ansible_connection": "community.docker.nsenter",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    inventory = {"all": {"children": groups, "vars": variables}}
    return "---\n" + yaml.safe_dump(inventory, sort_keys=False, width=200)


def _hosts(testbed: description.Testbed, role: description.Role) -> dict[str, dict[str, str]]:
    return {
        host.name: {
            "testbed_host": host.name,
            "testbed_address": host.address,
            # its name here: inventory_hostname is another host's in a task that is delegated
            "ansible_nsenter_pid": (
                f"{{{{ lookup('ansible.builtin.file', '{testbed.state}/{host.name}.pid') | int }}}}"
            ),
        }
        for host in testbed.hosts
        if host.role is role
    }
