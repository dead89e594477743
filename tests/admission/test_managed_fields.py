"""A user writes `managedFields` of any form, the API server keeps them, and our programs go on."""

import msgspec
import pytest

from gpustack.adapters.kube.listing import decode_page
from gpustack.wire.keys import Keys
from gpustack.wire.kube import api_objects
from tests.admission.site import PODS, Json, Site, pod

pytestmark = pytest.mark.testbed

_DEEP = b'{"f:a":' * 9000 + b"{}" + b"}" * 9000


def _noted(value: Json, note: bytes) -> Json:
    entry = {
        "manager": "anybody",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": msgspec.Raw(b'{"f:metadata":{"f:annotations":%b}}' % note),
    }
    return {**value, "metadata": {**value["metadata"], "managedFields": [entry]}}


@pytest.mark.parametrize("note", [_DEEP, b'{"f:\xff\xfe":{}}'], ids=["deep", "no-utf8"])
def test_a_users_managed_fields_end_no_reader(site: Site, note: bytes) -> None:
    made = site.admin.post(PODS, _noted(pod(), note))
    name = made["metadata"]["name"]
    raw = site.admin.get_raw(PODS)
    assert note in raw, "the server keeps it as it came"
    read = [api_objects.decode_pod(each)["metadata"]["name"] for each in decode_page(raw).items]
    assert name in read
    hosted = api_objects.decode_host_pod(
        Keys(), lambda _: False, site.admin.get_raw(f"{PODS}/{name}")
    )
    assert hosted["metadata"]["uid"] == made["metadata"]["uid"]
    assert site.admin.get(f"{PODS}/{name}")["metadata"]["name"] == name
