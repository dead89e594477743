"""No `managedFields` that a user may write keeps our programs from reading what stands around them.

The API server keeps them as they came; tests/admission/test_managed_fields.py shows that it does.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from extender.cache.pod_disruption_budgets import read_budget
from gpustack.adapters.kube import as_json, listing
from gpustack.wire.extender_v1 import decode_filter_args
from gpustack.wire.extender_v1.preempt import decode_preemption_args
from gpustack.wire.keys import Keys
from gpustack.wire.kube import api_objects, managed_fields
from tests.ansible import plugins


def _nested(depth: int) -> bytes:
    return b'{"f:a":' * depth + b"{}" + b"}" * depth


_NOTES = {
    "deep": _nested(9900),
    "no-utf8": b'{"f:\xff\xfe":{}}',
    "brackets": b'{"f:]\\"[":{},"f:b":[[],{"c":["]"]}],"f:deep":' + _nested(5000) + b"}",
}


def _object(note: bytes, name: bytes = b"x") -> bytes:
    """Return an object of the API with such a note; its labels follow the note."""
    return (
        b'{"kind":"Pod","metadata":{"name":"%b","namespace":"default","uid":"u","resourceVersion":"7",'
        b'"managedFields":[{"manager":"m","fieldsV1":%b}],"labels":{"a":"b"}},"spec":{}}'
        % (name, note)
    )


def _page(note: bytes) -> bytes:
    return b'{"metadata":{"resourceVersion":"9"},"items":[%b,%b]}' % (_object(note), _object(b"{}"))


_READERS: dict[str, Callable[[bytes], Any]] = {
    "pod": api_objects.decode_pod,
    "node": api_objects.decode_node,
    "pod of a host": lambda raw: api_objects.decode_host_pod(Keys(), lambda _: False, raw),
    "any object": listing.decode_object,
    "an object of a watch": lambda raw: as_json(msgspec.Raw(raw)),
}


@pytest.mark.parametrize("note", _NOTES.values(), ids=_NOTES)
@pytest.mark.parametrize("read", _READERS.values(), ids=_READERS)
def test_an_object_is_read_whatever_its_note(read: Callable[[bytes], Any], note: bytes) -> None:
    assert read(_object(note))["metadata"]["name"] == "x"


@pytest.mark.parametrize("note", _NOTES.values(), ids=_NOTES)
def test_a_list_and_a_watch_are_read_whatever_the_notes(note: bytes) -> None:
    assert [as_json(each)["metadata"]["name"] for each in listing.decode_page(_page(note)).items]
    change = listing.decode_change(b'{"type":"ADDED","object":%b}' % _object(note))
    assert (change.kind, listing.version_of(change.raw)) == ("ADDED", "7")
    assert api_objects.decode_pod(change.raw)["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize("depth", range(940, 1010))
def test_a_note_of_any_depth_is_read(depth: int) -> None:
    for raw in listing.decode_page(_page(_nested(depth))).items:
        assert api_objects.decode_pod(raw)["metadata"]["uid"] == "u"


@pytest.mark.parametrize("note", _NOTES.values(), ids=_NOTES)
def test_a_budget_is_read_whatever_its_note(note: bytes) -> None:
    assert read_budget(_object(note)).name == "x"


@pytest.mark.parametrize("note", _NOTES.values(), ids=_NOTES)
def test_a_scheduler_may_send_nodes_and_pods_with_any_note(note: bytes) -> None:
    filtered = b'{"Pod":%b,"Nodes":{"items":[%b,%b]}}'
    args = decode_filter_args(
        filtered % (_object(b"{}"), _object(note, b"n1"), _object(note, b"n2"))
    )
    assert (args.names, args.pod.uid) == (("n1", "n2"), "u")
    preempting = b'{"Pod":%b,"NodeNameToVictims":{"n1":{"Pods":[%b]}}}'
    victims = decode_preemption_args(preempting % (_object(note), _object(note))).victims
    assert victims["n1"].uids == ("u",)


def test_a_text_that_mentions_managed_fields_stays() -> None:
    value = {"a": 'x"managedFields":[', "managedFields": "[", "b": {"managedFields": [1, "]"]}}
    raw = json.dumps(value, separators=(",", ":")).encode()
    assert json.loads(managed_fields.without(raw)) == {**value, "b": {"managedFields": []}}


def test_a_text_that_ends_in_a_note_is_no_object() -> None:
    with pytest.raises(api_objects.BadObject):
        api_objects.decode_pod(_object(_nested(9900))[:-60])


@pytest.mark.parametrize("note", _NOTES.values(), ids=_NOTES)
def test_the_roles_module_reads_objects_as_the_package_does(note: bytes) -> None:
    """A role can't import the package: it runs on controllers that have none."""
    module = plugins.load("roles/cluster_objects/library/cluster_objects_list.py")
    for name in ("_BEGINNING", "_BRACKET"):
        theirs, ours = getattr(module, name), getattr(managed_fields, name)
        assert (theirs.pattern, theirs.flags) == (ours.pattern, ours.flags)
    for raw in (_object(note), _page(note), _page(note)[:-9], b'"\\"managedFields\\":[["'):
        assert module.without_managed_fields(raw) == managed_fields.without(raw)
