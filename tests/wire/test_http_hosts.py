"""Which Host headers name us; all others are some other site's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.wire.http_hosts import is_known_host

_NAMES = ("gpu1.example.com", "192.0.2.7", "2001:db8::1")

_ports = st.sampled_from(["", ":1", ":5678", ":65535"])
_loopback = st.one_of(
    st.sampled_from(["localhost", "LocalHost", "localhost.", "[::1]", "[0:0:0:0:0:0:0:1]"]),
    st.tuples(*(st.integers(0, 255),) * 3).map(lambda rest: "127." + ".".join(map(str, rest))),
)


@given(host=_loopback, port=_ports)
def test_a_loopback_name_is_known_at_any_port(host: str, port: str) -> None:
    assert is_known_host(host + port, ())


@given(
    host=st.sampled_from(
        ["gpu1.example.com", "GPU1.Example.COM.", "192.0.2.7", "[2001:db8::1]", "[2001:DB8:0::1]"]
    ),
    port=_ports,
)
def test_a_name_of_the_list_is_known_in_any_spelling(host: str, port: str) -> None:
    assert is_known_host(host + port, _NAMES)
    assert not is_known_host(host + port, ())


@pytest.mark.parametrize(
    "header",
    [
        "",
        "attacker.example",
        "127.0.0.1.attacker.example",
        "localhost.attacker.example",
        "attacker.example:5678",
        "128.0.0.1",
        "127.0.0.1:5678:5678",
        "127.0.0.1:port",
        "127.0.0.1, attacker.example",
        "user@127.0.0.1",
        "::1",
        "[::2]",
        "[::1",
        "2130706433",
        "0x7f.1",
        "localhost\n",
        "a" * 100_000,
    ],
)
def test_any_other_host_is_somebody_elses(header: str) -> None:
    assert not is_known_host(header, _NAMES)


@given(before=st.text(), port=_ports)
def test_no_text_before_its_own_name_makes_another_site_known(before: str, port: str) -> None:
    assert not is_known_host(f"{before}.attacker.example{port}", _NAMES)
