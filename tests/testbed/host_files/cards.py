"""The cards that GPU hosts have: ``/etc/simgpu/cards.json`` (its keys: tests/simgpu/README.md)."""

import collections.abc
import json
import pathlib
import typing
import uuid

from tests.testbed import description, progress
from tests.testbed.host_files import files

PATH = "/etc/simgpu/cards.json"
# two cards on one NVLink switch: the smallest host on which topology can be seen
DEFAULT: dict[str, typing.Any] = {
    "cards": [{"minor": 0}, {"minor": 1}],
    "links": [["X", "NV12"], ["NV12", "X"]],
}
# any fixed value does: a card has the same UUID every time its testbed is made
NAMESPACE = uuid.UUID("1d7f1d0c-3c6e-4a53-9a0f-5f6b0f8f8e11")


def describe(
    testbed: description.Testbed, given: pathlib.Path | None
) -> dict[str, dict[str, typing.Any]]:
    """Return each GPU host's cards by the host's name; cards without a UUID get one.

    Args:
        testbed: The hosts.
        given: A file with one description for all hosts, or with one under each host's name.

    Raises:
        TestbedError: The file is no JSON object, leaves a host out, or two cards share a UUID.
    """
    described = {
        host.name: _with_uuids(testbed.name, host.name, _pick(host.name, _read(given)))
        for host in testbed.gpu_hosts
    }
    uuids = [card["uuid"] for cards in described.values() for card in cards["cards"]]
    if len(set(uuids)) != len(uuids):
        raise progress.TestbedError(
            f"{given}: two cards have the same uuid; describe each host under its own name"
        )
    return described


def file(cards: collections.abc.Mapping[str, typing.Any]) -> files.File:
    """Return the file that a host's driver package reads."""
    return files.File(PATH, (json.dumps(cards, indent=2) + "\n").encode())


def _read(given: pathlib.Path | None) -> dict[str, typing.Any]:
    if given is None:
        return DEFAULT
    try:
        value = json.loads(given.read_text())
    except (OSError, ValueError) as error:
        raise progress.TestbedError(f"{given}: {error}") from error
    if not isinstance(value, dict):
        raise progress.TestbedError(f"{given}: a JSON object is expected")
    return value


def _pick(host: str, given: dict[str, typing.Any]) -> dict[str, typing.Any]:
    chosen = given if "cards" in given else given.get(host)
    if not isinstance(chosen, dict) or not isinstance(chosen.get("cards"), list):
        raise progress.TestbedError(f"the description of the cards has no list 'cards' for {host}")
    return chosen


def _with_uuids(testbed: str, host: str, cards: dict[str, typing.Any]) -> dict[str, typing.Any]:
    def made_up(minor: int) -> str:
        return f"GPU-{uuid.uuid5(NAMESPACE, f'{testbed}/{host}/{minor}')}"

    complete = [{"uuid": made_up(card["minor"]), **card} for card in cards["cards"]]
    return {**cards, "cards": complete}
