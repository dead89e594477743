"""Which header Host is ours: a page from elsewhere can't ask under a name of its own."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.wire.host_header import AllowedHosts

OURS = AllowedHosts(["10.0.0.5", "fd00::5", "GPU.example"])


def status(*values: str, hosts: AllowedHosts = OURS) -> int:
    refusal = hosts.refusal(values)
    return 200 if refusal is None else refusal.status


ports = st.one_of(st.just(""), st.integers(0, 65535).map(":{}".format))


@given(st.ip_addresses(v=4, network="127.0.0.0/8"), ports)
def test_every_loopback_address_is_ours_at_any_port(
    address: ipaddress.IPv4Address, port: str
) -> None:
    assert status(f"{address}{port}") == 200


@pytest.mark.parametrize(
    "value",
    ["localhost", "LocalHost:3456", "[::1]", "[::1]:3456", "[0:0:0:0:0:0:0:1]:1",
     "10.0.0.5:3456", "[fd00::5]:3456", "[FD00:0::5]", "gpu.EXAMPLE", "gpu.example:80",
     "localhost:"],
)  # fmt: skip
def test_names_that_were_given_are_ours_in_any_form(value: str) -> None:
    assert status(value) == 200


@given(st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}\.){1,3}example", fullmatch=True), ports)
def test_a_name_of_another_site_is_421_and_named(name: str, port: str) -> None:
    refusal = AllowedHosts().refusal([name + port])
    assert refusal is not None
    assert refusal.status == 421
    assert refusal.text.startswith("Host: ")
    assert "allowed_hosts" in refusal.text


@pytest.mark.parametrize(
    "value",
    ["10.0.0.6", "localhost.evil.example", "127.0.0.1.evil.example", "[fd00::6]", "127.1",
     "localhost.", "0.0.0.0", "2130706433"],
)  # fmt: skip
def test_a_name_that_only_looks_like_ours_is_421(value: str) -> None:
    assert status(value) == 421


@pytest.mark.parametrize(
    "value",
    ["", "a b", "localhost:x", "localhost:65536", "localhost:" + "9" * 5000,
     "::1", "[::1", "http://localhost", "user@localhost", "localhost,evil.example",
     "localhost/x", "local\u017fost", "x" * 5000],
)  # fmt: skip
def test_a_value_that_is_no_host_is_400_and_named_in_short(value: str) -> None:
    refusal = OURS.refusal([value])
    assert refusal is not None
    assert refusal.status == 400
    assert refusal.text.startswith("Host: ")
    assert len(refusal.text) < 200


def test_a_missing_or_second_header_is_400_and_http_1_0_may_omit_it() -> None:
    assert status() == 400
    assert status("localhost", "localhost") == 400
    assert OURS.refusal([], required=False) is None
    assert OURS.refusal(["evil.example"], required=False) is not None


def test_where_any_name_is_ours_a_header_must_be_well_formed() -> None:
    hosts = AllowedHosts(any_name=True)
    assert hosts.refusal(["gpu1.example.com:5679"]) is None
    for values in ([], ["a", "b"], ["a/b"]):
        refused = hosts.refusal(values)
        assert refused is not None
        assert refused.status == 400
