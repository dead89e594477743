"""The quota ConfigMap: texts of the original are read, and a fault is named by its path."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.quota.quota import NamespaceQuota
from gpustack.wire.quota import BadQuota, decode_quota, parse_quota
from tests.model.clusters import quotas


def test_the_originals_whole_numbers_are_read() -> None:
    read = parse_quota('{"team": {"quota": {"M40": 2, "P100": 3}, "pool": ["public"]}}')
    assert read.of("team") == NamespaceQuota(cards={"M40": 200, "P100": 300}, pools=("public",))
    assert read.of("other") is None


def test_an_impossible_namespace_is_read_as_in_the_originals_example() -> None:
    text = '{"A": {"pool": ["public"], "quota": {"M40": 2}}, "b": {"quota": {"P100": 1}}}'
    read = parse_quota(text)
    assert read.of("b") == NamespaceQuota(cards={"P100": 100})
    assert read.of("a") is None


def test_a_model_may_be_written_with_the_drivers_spaces() -> None:
    read = parse_quota('{"team": {"quota": {"NVIDIA A100-SXM4-80GB": 1}}}').of("team")
    assert read is not None
    assert read.cards == {"NVIDIA-A100-SXM4-80GB": 100}


@pytest.mark.parametrize("text", ['{"team": {"quota": null, "pool": null}}', '{"team": {}}'])
def test_an_empty_list_as_go_writes_it_is_read(text: str) -> None:
    assert parse_quota(text).of("team") == NamespaceQuota(cards={}, pools=())


@pytest.mark.parametrize(
    ("number", "hundredths"),
    [("0.1", 10), ("1.25", 125), ("2.50", 250), ("1e2", 10_000), ("0", 0), ("0.00", 0)],
)
def test_two_decimals_are_read_exactly(number: str, hundredths: int) -> None:
    read = parse_quota(f'{{"team": {{"quota": {{"A100": {number}}}}}}}').of("team")
    assert read is not None
    assert read.cards["A100"] == hundredths


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "is not JSON"),
        ("[]", "the document: [] is not of type object"),
        ('{"team": 3}', "team: 3 is not of type object"),
        ('{"team": {"pools": []}}', "team: pools is not known here; allowed: pool, quota"),
        ('{"team": {"pool": ["a", 3]}}', "team.pool[1]: 3 is not of type string"),
        ('{"team": {"quota": {"A100": -1}}}', "team.quota.A100: -1 is less than 0"),
        ('{"team": {"quota": {"A100": "2"}}}', "team.quota.A100: '2' is not of type number"),
        ('{"team": {"quota": {"A100": true}}}', "team.quota.A100: True is not of type number"),
        ('{"team": {"quota": {"A100": 1.005}}}', "team.quota.A100: 1.005 has more than two"),
        ('{"team": {"quota": {"A100": 1e-99999999999999999}}}', "more than two decimals"),
        ('{"team": {"quota": {"A100": NaN}}}', "NaN is not a number"),
        ('{"team": {"quota": {"A100": 1e9}}}', "more than 1000000"),
        ('{"team": {"quota": {"A100": 1e9999}}}', "team.quota.A100: 1E+9999 is more than"),
        ('{"team": {"quota": {"A100": 1e9999999999999999999}}}', "a number of 21 characters"),
        ('{"team": {"quota": {"A100": 1.000000000000000000001}}}', "a number of 23 characters"),
        ('{"team": {"quota": {"--": 1}}}', "'--' is not allowed; expected: a model name"),
        ('{"team": {"quota": {"A 100": 1, "A-100": 2}}}', "team.quota.A-100: A-100 stands twice"),
        ('{"": {}}', "'' is not allowed; expected: the name of a namespace"),
        ('{"team": {}, "team": {}}', "'team' stands twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_text_that_is_no_quota_is_named_by_its_path(text: str, named: str) -> None:
    with pytest.raises(BadQuota) as caught:
        parse_quota(text)
    assert named in str(caught.value)
    assert str(caught.value).startswith("data.gpu_quota: ")


def test_a_missing_config_map_limits_no_namespace() -> None:
    assert decode_quota(None).namespaces == {}


@pytest.mark.parametrize("config_map", [{}, {"data": None}, {"data": {"gpu-quota": "{}"}}])
def test_a_config_map_without_the_key_is_broken(config_map: dict[str, Any]) -> None:
    with pytest.raises(BadQuota, match=r"is missing; write .* or delete the ConfigMap"):
        decode_quota(config_map)


@given(st.data())
def test_any_quota_reads_back(data: st.DataObject) -> None:
    quota = data.draw(quotas())
    body = {
        name: {
            "quota": {model: cards / 100 for model, cards in each.cards.items()},
            "pool": list(each.pools),
        }
        for name, each in quota.namespaces.items()
    }
    assert decode_quota({"data": {"gpu_quota": json.dumps(body)}}) == quota


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"a": {"pool": [0] * 50_000}}),
        json.dumps({"a": {"quota": {str(at): -1 for at in range(20_000)}}}),
        json.dumps({"x" * 100_000: 1}),
        json.dumps({"x" * 100_000: {}, "y": {}}).replace('"y"', f'"{"x" * 100_000}"'),
    ],
    ids=["pools", "models", "a-name", "a-name-twice"],
)
def test_a_text_full_of_problems_is_refused_in_few_words(text: str) -> None:
    """Found by tests/fuzz: the extender told all of them, for seconds, in an Event of megabytes."""
    with pytest.raises(BadQuota) as caught:
        parse_quota(text)
    assert 0 < len(caught.value.problems) <= 20
    assert len(str(caught.value)) < 20 * 700
