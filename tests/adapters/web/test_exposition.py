"""The text of metrics has the form of its content type for every Accept of a client."""

from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client import parser as plain
from prometheus_client.openmetrics import parser as openmetrics

from gpustack.adapters.web import exposition

OPENMETRICS = "application/openmetrics-text"
END = b"# EOF\n"
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def registry() -> CollectorRegistry:
    found = CollectorRegistry()
    Counter("tried_total", "Tries.", ["how"], registry=found).labels("often").inc(3)
    Gauge("free_bytes", "What is left.", registry=found).set(7)
    return found


def samples(text: bytes, content_type: str) -> dict[str, float]:
    parser = openmetrics if content_type.startswith(OPENMETRICS) else plain
    families: Iterator[object] = parser.text_string_to_metric_families(text.decode())
    return {
        sample.name: sample.value
        for family in families
        for sample in family.samples  # type: ignore[attr-defined]
        if not sample.name.endswith("_created")
    }


@pytest.mark.parametrize("accept", [PROMETHEUS_2, PROMETHEUS_3, OPENMETRICS])
def test_an_accept_of_openmetrics_gets_openmetrics(accept: str) -> None:
    text, content_type = exposition.render(registry(), accept)
    assert content_type.startswith(f"{OPENMETRICS}; version=1.0.0; charset=utf-8")
    assert text.endswith(END)
    assert samples(text, content_type) == {"tried_total": 3, "free_bytes": 7}


@pytest.mark.parametrize(
    "accept",
    ["", "*/*", "text/plain", "text/plain;version=0.0.4", "text/html", f"{OPENMETRICS};q=0"],
)
def test_any_other_accept_gets_plain_text(accept: str) -> None:
    text, content_type = exposition.render(registry(), accept)
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert END not in text
    assert samples(text, content_type) == {"tried_total": 3, "free_bytes": 7}


@pytest.mark.parametrize("version", ["2.0.0", "99999", "x", "1.x", "1.0.0\r\nSet-Cookie: a=b"])
def test_a_version_that_is_not_supported_is_passed_over(version: str) -> None:
    accept = f"{OPENMETRICS};version={version}"
    assert "version=0.0.4" in exposition.render(registry(), accept)[1]
    accept += f",{OPENMETRICS};version=1.0.0"
    assert exposition.render(registry(), accept)[0].endswith(END)


media = st.lists(
    st.sampled_from(
        [OPENMETRICS, "text/plain", ";", ",", "=", "version", "1.0.0", "q", "0", " ", "escaping"]
    ),
    max_size=30,
).map("".join)


@given(st.one_of(media, st.text(max_size=60)))
@example(";=" * 600)
@example("text/plain;version=1.0.0")
@example(f"{OPENMETRICS};version=x;version=1.0.0")
def test_any_accept_gets_text_of_the_type_that_it_names(accept: str) -> None:
    text, content_type = exposition.render(registry(), accept)
    assert text.endswith(END) == content_type.startswith(OPENMETRICS)
    assert samples(text, content_type)["free_bytes"] == 7
    assert content_type.isprintable()
    formed = exposition.render(registry(), exposition.form(accept))[1]
    assert formed in (content_type, f"{content_type}; escaping=underscores")
