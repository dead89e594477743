"""User keys are validated where they are written: in bounds, by name, and when they change."""

from typing import Final

import pytest

from gpustack.model.request import BadRequest
from gpustack.wire.pods import parse_request
from gpustack.wire.user_keys import LONGEST_BYTES
from tests.admission.site import ENDLESS, PLAIN, USER_KEYS, Json, Site, bind, notes, pod
from tests.control_plane import plane
from tests.control_plane.fleet import KEYS

pytestmark = pytest.mark.testbed


TEXTS: Final = (
    *("", ",", "!", " ! ", "!!", "*", "A100", "A100,!P40", "NVIDIA A100-SXM4-80GB, ! NVIDIA T4"),
    *("A100,", "GPU-1,!GPU-2", "\u00e9", "best-effort", " nvlink ", "nvlink,", "single-switch"),
    *("single-numa", "NVLINK", "binpack", " spread ", "full", "node=spread", "card=full", "node="),
    *("node=spread,card=binpack", " card = spread , node=binpack ", "node=spread,node=spread"),
    *("node=spread,card=binpack,card=spread", "rack=spread", "1", "100", "250", "0", "000", "007"),
    *("-5", "60%", "1.5", "999999999", "1000000000", "\u0663", " 5"),
    *("-", "! !", "!\u00a0", "A100,\u2003", "\u200b!A100", "!\u0420\u0034\u0030", "A100\0"),
    *("\x1cA100", "a,\n!b\n", "\u00a0nvlink", "nvlink\x1c", "nvlink\n", "\u2003spread"),
    *("spread\x1f", "\u00a0node=spread", "node\u00a0=spread", "card=full,node=spread\x85"),
    *("\tcard=spread\n", "\u2003binpack"),
    *(",".join(["x"] * count) for count in (64, 65)),
    *("x" * length for length in (LONGEST_BYTES, LONGEST_BYTES + 1)),
    *(start + "\u00e9" * (LONGEST_BYTES // 2) for start in ("", "x")),
    ",".join([f"{at:03d}".ljust(63, "x") for at in range(64)]),
    *("env", " none ", "none\n", "ENV", "env,none", "\u00a0env"),
)


@pytest.mark.parametrize("key", USER_KEYS)
def test_the_policy_and_the_extender_read_user_keys_alike(site: Site, key: str) -> None:
    wrong = []
    for text in TEXTS:
        asked = pod(annotations={key: text})
        said = site.denied(asked)
        if bool(said) != bool(_problem(asked)) or (said and f"annotations[{key}]" not in said):
            wrong.append((text[:80], said, _problem(asked)))
    assert wrong == []


@pytest.mark.parametrize("key", USER_KEYS)
@pytest.mark.parametrize("text", ["x", ",", "!,", "\u00e9", "1", "node=spread,"])
def test_an_endless_user_key_is_refused_by_name(site: Site, key: str, text: str) -> None:
    asked = pod(annotations={key: (text * ENDLESS)[: ENDLESS // len(text.encode())]})
    said = site.denied(asked)
    assert f"metadata.annotations[{key}]: is longer than 4096 bytes" in said
    said = site.patched(site.pod(), notes(**asked["metadata"]["annotations"]))
    assert f"metadata.annotations[{key}]: is longer than 4096 bytes" in said


def test_all_user_keys_at_their_longest_are_read_within_the_cost(site: Site) -> None:
    longest = ",".join([f"{at:03d}".ljust(63, "!") for at in range(64)])
    for key in USER_KEYS:
        said = site.denied(pod(annotations=dict.fromkeys(USER_KEYS, longest) | {key: ","}))
        assert "metadata.annotations[" in said
        assert "cost" not in said


def test_a_pod_without_gpu_may_have_any_annotation(site: Site) -> None:
    assert site.denied(pod(PLAIN, annotations=dict.fromkeys(USER_KEYS, ","))) == ""


@pytest.mark.parametrize("key", USER_KEYS)
@pytest.mark.parametrize("part", ["", "/status"])
def test_a_bad_user_key_is_refused_on_every_way_to_write_it(
    site: Site, key: str, part: str
) -> None:
    path = site.pod()
    assert f"annotations[{key}]" in site.patched(path + part, notes(**{key: ","}))
    assert site.patched(path + part, notes(**{key: None})) == ""
    assert f"annotations[{key}]" in bind(site.admin, path, annotations={key: ","})


def test_an_old_pod_with_bad_user_keys_takes_other_changes(
    site: Site, before: tuple[plane.ControlPlane, Json]
) -> None:
    old = before[1]["bad"]
    assert site.patched(old, {"metadata": {"labels": {"any": "label"}}}) == ""
    assert site.patched(old, notes(**{"example.org/any": "1"})) == ""
    assert site.patched(f"{old}/status", {"status": {"message": "any"}}) == ""
    debugger = {"spec": {"ephemeralContainers": [{"name": "look", "image": "none"}]}}
    assert site.patched(f"{old}/ephemeralcontainers", debugger) == ""
    grown = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    assert "cpu" not in site.patched(f"{old}/resize", {"spec": {"containers": [grown]}})
    for key in USER_KEYS[1:]:
        assert f"annotations[{key}]" in site.patched(old, notes(**{key: ","}))
        assert site.patched(old, notes(**{key: None})) == ""
    assert site.patched(old, {"metadata": {"finalizers": None}}) == ""


def _problem(asked: Json) -> str:
    try:
        parse_request(KEYS, asked)
    except BadRequest as error:
        return str(error)
    return ""
