"""Who may read from another machine: certificates, tokens, and an API server that is away."""

import ssl
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.adapters.web.bearer import bearer_token
from tests.adapters.web.reading import PROMETHEUS, TOKEN, Site
from tests.testbed.host_files import certificates

REVIEW = "/tokenreviews$"


def test_a_client_of_the_authority_reads_without_a_token(site: Site) -> None:
    with site.serving():
        answer = site.ask(client=site.authority.client("prometheus"))
        assert (answer.status, answer.body) == (200, b"up 1\n")
    assert not site.api.requests


@pytest.mark.parametrize("tokens", [True, False])
def test_a_client_of_another_authority_reads_nothing(
    site: Site, caplog: pytest.LogCaptureFixture, *, tokens: bool
) -> None:
    stranger = certificates.authority("authority").client("prometheus")
    with site.serving(tokens=tokens), pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
        site.ask(TOKEN, client=stranger)
    assert "cause=unknown_issuer" in caplog.text


def test_a_client_without_a_certificate_is_refused_where_no_token_counts(site: Site) -> None:
    with site.serving(tokens=False):
        answer = site.ask(TOKEN)
        assert (answer.status, answer.body) == (401, b"show a client certificate\n")
    with (
        site.serving(tokens=False, files=lambda: site.files(client_required=True)),
        pytest.raises(ssl.SSLError),
    ):
        site.ask(TOKEN)


@pytest.mark.parametrize("path", ["/metrics", "/nothing"])
def test_a_client_that_shows_nothing_is_told_what_to_show(site: Site, path: str) -> None:
    with site.serving():
        answer = site.ask(path=path)
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert b"Authorization: Bearer TOKEN" in answer.body


def test_a_token_with_the_right_reads(site: Site) -> None:
    with site.serving():
        assert site.ask(TOKEN).body == b"up 1\n"
        assert site.ask(TOKEN, path="/nothing").status == 404
        assert site.ask(TOKEN, Host="gpu1.example.com:5679").status == 200


def test_an_unknown_token_is_401_and_one_without_the_right_403(site: Site) -> None:
    site.api.tokens["tenant"] = {"username": "tenant"}
    with site.serving():
        assert site.ask("nonsense").status == 401
        answer = site.ask("tenant")
    assert answer.status == 403
    assert b"nonResourceURLs /metrics, verb get" in answer.body


def test_a_right_to_another_path_or_verb_is_none(site: Site) -> None:
    site.api.rights = {(PROMETHEUS, "get", "/metrics/x"), (PROMETHEUS, "list", "/metrics")}
    with site.serving():
        assert site.ask(TOKEN).status == 403


@pytest.mark.parametrize(
    ("path", "status"), [(REVIEW, 500), (REVIEW, 403), ("/subjectaccessreviews$", 500)]
)
def test_an_api_server_that_does_not_say_lets_nobody_in(
    site: Site, caplog: pytest.LogCaptureFixture, path: str, status: int
) -> None:
    site.api.faults.fail("POST", path, status=status, times=1)
    with site.serving():
        answer = site.ask(TOKEN)
        assert answer.status == 503
        assert b"the API server does not say who shows this token" in answer.body
        assert site.ask(TOKEN).status == 200  # it isn't kept
    assert f"API server answered {status}" in caplog.text


def test_an_api_server_that_is_away_lets_nobody_in(site: Site) -> None:
    with site.serving():
        site.api.stop()
        assert site.ask(TOKEN).status == 503
        assert site.ask(client=site.authority.client("prometheus")).status == 200


@pytest.mark.parametrize("user", [{"username": ""}, {}, "root", ["root"]])
def test_an_account_without_a_name_reads_nothing(site: Site, user: Any) -> None:
    site.api.tokens["odd"] = user
    with site.serving():
        assert site.ask("odd").status == 401


@given(st.from_regex(r"\A[A-Za-z0-9._~+/-]{1,40}={0,2}\Z"), st.sampled_from(["Bearer", "bEARER"]))
def test_a_bearer_token_is_read_as_it_was_sent(token: str, scheme: str) -> None:
    assert bearer_token([f"{scheme} {token}"]) == token
    assert bearer_token([f" {scheme}  {token}\t"]) == token
    assert bearer_token([f"{scheme} {token}"] * 2) is None
    assert bearer_token([f"Basic {token}"]) is None
    assert bearer_token([f"{scheme} {token} {token}"]) is None
    assert bearer_token([f"{scheme}{token}"]) is None


@given(st.lists(st.text(), max_size=3))
def test_any_header_is_one_token_or_none(values: list[str]) -> None:
    token = bearer_token(values)
    assert token is None or (len(values) == 1 and token in values[0] and token.isascii())
