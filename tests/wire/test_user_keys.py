"""What a pod's user writes about cards: read within bounds, and each key by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.model.request import BadRequest, Selector, Strategy, Topology
from gpustack.wire.pods import parse_readable, parse_request
from gpustack.wire.user_keys import core_limit, library_path, names_of, parse_user_keys
from tests.wire.api import KEYS, container, pod

LISTS = (KEYS.gpu_model, KEYS.gpu_uuid)


def _asking(**annotations: str) -> dict[str, object]:
    keys = {f"{KEYS.domain}/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return pod(container("50", "32"), annotations=keys)


@pytest.mark.parametrize("key", names_of(KEYS))
@pytest.mark.parametrize(
    "text",
    ["x" * 4097, "é" * 2049, "x," * 64 + "x", ",", "!" * 250_000],
    ids=["long", "long in bytes", "many names", "no name", "endless"],
)
def test_a_bad_user_key_is_refused_by_name_and_in_few_words(key: str, text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_request(KEYS, pod(container("50", "32"), annotations={key: text}))
    assert caught.value.field == f"metadata.annotations[{key}]"
    assert len(caught.value.message) < 400


@pytest.mark.parametrize("key", LISTS)
@pytest.mark.parametrize("name", ["!-", "\t", "*", "! !"])
def test_a_name_without_letter_or_digit_is_refused(key: str, name: str) -> None:
    with pytest.raises(BadRequest, match="empty name"):
        parse_request(KEYS, pod(container("50", "32"), annotations={key: f"A100,{name}"}))


@pytest.mark.parametrize("key", LISTS)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("!\u0420\u0034\u0030", id="Cyrillic"),
        pytest.param("\u200b!A100", id="zero-width"),
        pytest.param("\ufeffA100", id="byte order mark"),
        pytest.param("!A100\u00a0", id="no-break space"),
        pytest.param("\u00e9", id="accent"),
        pytest.param("A100\0", id="NUL"),
        pytest.param("\x1cA100", id="separator"),
    ],
)
def test_a_name_that_only_looks_like_a_card_is_refused(key: str, name: str) -> None:
    with pytest.raises(BadRequest, match="ASCII"):
        parse_request(KEYS, pod(container("50", "32"), annotations={key: f"A100,{name}"}))


@pytest.mark.parametrize("key", LISTS)
def test_names_may_stand_on_lines_of_their_own(key: str) -> None:
    request = parse_request(KEYS, pod(container("50", "32"), annotations={key: "a,\n !b\n"}))
    assert request is not None
    chosen = request.models if key == KEYS.gpu_model else request.uuids
    assert chosen == Selector(include=("a",), exclude=("b",))


@pytest.mark.parametrize("key", LISTS)
def test_a_user_key_takes_64_names_and_4096_bytes(key: str) -> None:
    names = [f"{index:03d}".ljust(63, "x") for index in range(64)]
    request = parse_request(KEYS, pod(container("50", "32"), annotations={key: ",".join(names)}))
    assert request is not None
    chosen = request.models if key == KEYS.gpu_model else request.uuids
    assert chosen.include == tuple(names)


def test_a_key_that_cannot_be_read_leaves_the_others_in_force() -> None:
    written = _asking(gpu_model="A100", gpu_uuid=",", gpu_topology="nvlink", gpu_placement="full")
    request, problems = parse_readable(KEYS, written)
    assert request is not None
    assert request.models == Selector(include=("A100",))
    assert request.uuids == Selector()
    assert request.topology is Topology.NVLINK
    assert request.node_strategy is Strategy.BINPACK
    assert {each.field for each in problems} == {
        f"metadata.annotations[{KEYS.gpu_uuid}]",
        f"metadata.annotations[{KEYS.gpu_placement}]",
    }


@given(st.dictionaries(st.sampled_from(names_of(KEYS)), st.text()))
def test_any_text_is_read_or_named(written: dict[str, str]) -> None:
    found = parse_user_keys(KEYS, {"metadata": {"annotations": written}})
    fields = {f"metadata.annotations[{key}]" for key in written}
    assert {each.field for each in found.problems} <= fields


@pytest.mark.parametrize(("text", "limit"), [("60", 60), ("100", 100), ("250", 100), ("1", 1)])
def test_the_burst_ceiling_is_clamped_to_the_card(text: str, limit: int) -> None:
    assert core_limit(KEYS, pod(annotations={KEYS.core_limit: text})) == limit


def test_the_burst_ceiling_of_a_pod_is_optional() -> None:
    assert core_limit(KEYS, pod()) is None


@pytest.mark.parametrize("text", ["", "0", "-5", "60%", "1.5", "\u0663", "9" * 12])
def test_a_burst_ceiling_that_is_no_percentage_is_refused(text: str) -> None:
    written = pod(container("50", "32"), annotations={KEYS.core_limit: text})
    for read in (core_limit, parse_request):
        with pytest.raises(BadRequest, match=r"vcuda-core-limit.*write 1 to 100"):
            read(KEYS, written)


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\x1c", "\u200b"])
@pytest.mark.parametrize("text", ["nvlink", "spread", "node=spread,card=binpack"])
def test_only_ascii_spaces_stand_around_a_word(text: str, space: str) -> None:
    key = KEYS.gpu_topology if text == "nvlink" else KEYS.gpu_placement
    for around in (f"{space}{text}", f"{text}{space}"):
        found = parse_user_keys(KEYS, pod(annotations={key: around}))
        assert [each.field for each in found.problems] == [f"metadata.annotations[{key}]"]
    assert parse_user_keys(KEYS, pod(annotations={key: f"\t{text} \n"})).problems == ()


@pytest.mark.parametrize(("text", "given"), [("env", True), ("none", False), (" none\n", False)])
def test_the_driver_path_is_read_from_the_pod(text: str, given: bool) -> None:
    assert library_path(KEYS, pod(annotations={KEYS.driver_path: text})) is given


def test_the_driver_path_of_a_pod_is_optional() -> None:
    assert library_path(KEYS, pod()) is None


@pytest.mark.parametrize("text", ["", "ENV", "env,none", "/opt/compat", "\u00a0env"])
def test_a_driver_path_that_is_no_known_word_is_refused(text: str) -> None:
    written = pod(container("50", "32"), annotations={KEYS.driver_path: text})
    for read in (library_path, parse_request):
        with pytest.raises(BadRequest, match=r"driver-path.*is not env or none"):
            read(KEYS, written)
