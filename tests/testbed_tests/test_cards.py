import json
import pathlib

import pytest

from tests.testbed import description, progress
from tests.testbed.host_files import cards


def uuids(described: dict[str, dict[str, list[dict[str, str]]]]) -> list[str]:
    return [card["uuid"] for host in described.values() for card in host["cards"]]


def test_hosts_have_two_linked_cards_of_their_own(testbed: description.Testbed) -> None:
    described = cards.describe(testbed, None)

    assert list(described) == ["gpu1", "gpu2"]
    assert described["gpu1"]["links"] == [["X", "NV12"], ["NV12", "X"]]
    assert len(set(uuids(described))) == 4
    assert described == cards.describe(testbed, None), (
        "cards that change when a testbed is made again"
    )


def test_a_description_may_be_one_for_each_host(
    testbed: description.Testbed, tmp_path: pathlib.Path
) -> None:
    given = tmp_path / "cards.json"
    given.write_text(
        json.dumps(
            {
                "gpu1": {"cards": [{"minor": 0, "uuid": "GPU-a"}]},
                "gpu2": {"cards": [{"minor": 0, "uuid": "GPU-b"}], "driver": "550.54.15"},
            }
        )
    )

    described = cards.describe(testbed, given)

    assert uuids(described) == ["GPU-a", "GPU-b"]
    assert described["gpu2"]["driver"] == "550.54.15"


def test_two_cards_with_one_uuid_are_refused(
    testbed: description.Testbed, tmp_path: pathlib.Path
) -> None:
    given = tmp_path / "cards.json"
    given.write_text('{"cards": [{"minor": 0, "uuid": "GPU-a"}]}')

    with pytest.raises(progress.TestbedError, match="same uuid"):
        cards.describe(testbed, given)


@pytest.mark.parametrize(
    ("text", "message"),
    [("[]", "JSON object"), ("{", "cards.json"), ('{"gpu1": {"cards": []}}', "for gpu2")],
)
def test_a_description_that_cannot_be_used_is_refused(
    testbed: description.Testbed, tmp_path: pathlib.Path, text: str, message: str
) -> None:
    given = tmp_path / "cards.json"
    given.write_text(text)

    with pytest.raises(progress.TestbedError, match=message):
        cards.describe(testbed, given)


def test_a_missing_description_is_named(
    testbed: description.Testbed, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(progress.TestbedError, match=r"nowhere\.json"):
        cards.describe(testbed, tmp_path / "nowhere.json")
