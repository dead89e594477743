"""pytest fixtures that bring a testbed up once for all tests of a session.

A conftest.py takes one with ``testbed = fixtures.session_testbed("e2e")``. With
GPUSTACK_TESTBED_KEEP set in the environment a running testbed of that name is used as it is and
left running, so that one can work on a test without waiting for hosts.
"""

import collections.abc
import os
import typing

import pytest

from tests.testbed import description, hosts, progress, testbed

KEEP = "GPUSTACK_TESTBED_KEEP"


def session_testbed(
    name: str, *, gpu_hosts: int = 2, with_cluster: bool = True
) -> collections.abc.Callable[..., typing.Any]:
    """Return a session-scoped fixture that yields a running ``description.Testbed``.

    Args:
        name: The testbed's name; two sessions with the same name are in each other's way.
        gpu_hosts: How many GPU hosts.
        with_cluster: Whether Kubernetes runs on them.
    """

    @pytest.fixture(scope="session")
    def running() -> collections.abc.Iterator[description.Testbed]:
        keep = bool(os.environ.get(KEEP))
        found = _running(name) if keep else None
        try:
            yield found or testbed.up(name, gpu_hosts=gpu_hosts, with_cluster=with_cluster)
        finally:
            if not keep:
                testbed.down(name)

    return running


def _running(name: str) -> description.Testbed | None:
    try:
        found = description.load(name)
    except progress.TestbedError:
        return None
    return found if all(hosts.pid(found, host) for host in found.hosts) else None
