"""Tokens, levels, costs, and matrices that describe no machine."""

import pytest

from gpustack.model.topology.link_level import BadLinks, Level, Links, check_links, parse_link
from tests.model.machines import grouped


@pytest.mark.parametrize(
    ("token", "level", "cost"),
    [
        ("X", Level.SELF, 0),
        ("NV18", Level.NVLINK, 1),
        ("NV12", Level.NVLINK, 2),
        ("NV4", Level.NVLINK, 5),
        ("NV1", Level.NVLINK, 18),
        ("PIX", Level.PIX, 20),
        ("PXB", Level.PXB, 30),
        ("PHB", Level.PHB, 40),
        ("NODE", Level.NODE, 50),
        ("SYS", Level.SYS, 60),
    ],
)
def test_tokens_have_the_levels_and_costs_of_the_contract(
    token: str, level: Level, cost: int
) -> None:
    link = parse_link(token)
    assert (link.token, link.level, link.cost) == (token, level, cost)


@pytest.mark.parametrize(("old", "new"), [("SOC", "SYS"), ("INTERNAL", "PIX"), ("SINGLE", "PIX")])
def test_old_words_mean_the_same_levels(old: str, new: str) -> None:
    assert parse_link(old) == parse_link(new)


@pytest.mark.parametrize("token", ["", "NV", "NV0", "NV100", "pix", "SELF", "NVLINK", "N/A"])
def test_an_unknown_token_is_refused_with_what_is_allowed(token: str) -> None:
    with pytest.raises(BadLinks, match="not one of X, NV<n>, PIX"):
        parse_link(token)


@pytest.mark.parametrize(
    ("links", "place"),
    [
        ((("X",),), "1 rows for 2 cards"),
        ((("X", "PIX"), ("PIX",)), r"links\[1\] has 1 tokens"),
        ((("X", "PIX"), ("SYS", "X")), r"links\[1\]\[0\]: 'SYS', but links\[0\]\[1\] is 'PIX'"),
        ((("X", "X"), ("X", "X")), r"links\[0\]\[1\]: 'X'"),
        ((("PIX", "PIX"), ("PIX", "X")), r"links\[0\]\[0\]: 'PIX'"),
        ((("X", "FOO"), ("FOO", "X")), r"links\[0\]\[1\]: 'FOO' is not one of"),
    ],
)
def test_a_matrix_that_describes_no_machine_is_refused_with_the_place(
    links: Links, place: str
) -> None:
    with pytest.raises(BadLinks, match=place):
        check_links(links, 2)


def test_a_symmetric_matrix_passes() -> None:
    check_links(grouped(3, 4), 7)
