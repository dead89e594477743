"""What a rule took, the probe gives back; what a person took, only a person does."""

import itertools
import json
import pathlib

import pytest

from gpustack.adapters.nvml import XID_RULES, CardFault, Ends, xid_fault
from gpustack.agent.health import card_states
from gpustack.agent.health.card_state import HELD, MOST_CHANGES, CardState, State
from gpustack.agent.health.card_states import CardStates, HealthRules
from gpustack.agent.health.state_file import StateFile
from tests.agent.health.cards import BOOT

CARD = "GPU-1"
LOST, NO_ANSWER = (CardFault(uuid=CARD, reason=each) for each in ("Lost", "NoAnswer"))
REMAP = CardFault(uuid=CARD, reason="RemapPending")
_PROBE = 60.0


class Health:
    """The states of one card, with a clock that only a test moves."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self.clock = 0.0
        self.asked = 0  # how many times for the time of a change
        self.told: list[tuple[State, State]] = []
        self.start()

    def start(self, boot: str = BOOT) -> None:
        """Begin anew, as a new agent does."""
        self.states = CardStates(
            StateFile(self._root / "health.json", boot_id=boot),
            HealthRules(probe_seconds=_PROBE),
            tell=lambda before, after: self.told.append((before.state, after.state)),
            clock=lambda: self.clock,
            now=self._now,
        )

    def _now(self) -> str:
        self.asked += 1
        return "2026-01-01T00:00:00Z"

    def look(self, *found: CardFault, after: float = 0.0) -> State:
        self.clock += after
        self.states.observe([CARD], found)
        return self.card.state

    def probe(self) -> State:
        """Look until the time of a probe is over."""
        self.look()
        return self.look(after=_PROBE)

    @property
    def card(self) -> CardState:
        return self.states.of(CARD)


@pytest.fixture
def health(tmp_path: pathlib.Path) -> Health:
    health = Health(tmp_path)
    assert health.look() is State.HEALTHY
    return health


def test_a_well_card_without_faults_is_not_judged_again(health: Health) -> None:
    before = health.asked
    assert health.look() is State.HEALTHY
    assert health.asked == before
    assert health.look(NO_ANSWER) is State.UNHEALTHY
    assert health.asked > before


def test_a_fault_that_is_over_is_probed_before_the_card_is_used(health: Health) -> None:
    assert health.look(NO_ANSWER) is State.UNHEALTHY
    assert health.look() is State.PROBED
    assert health.look(after=_PROBE - 1) is State.PROBED
    assert health.look(after=1) is State.HEALTHY
    states = [State.HEALTHY, State.UNHEALTHY, State.PROBED, State.HEALTHY]
    assert health.told == list(itertools.pairwise(states))


def test_a_fault_while_a_card_is_probed_begins_the_time_anew(health: Health) -> None:
    health.look(NO_ANSWER)
    health.look()
    assert health.look(NO_ANSWER, after=_PROBE - 1) is State.UNHEALTHY
    assert health.look(after=1) is State.PROBED
    assert health.look(after=_PROBE) is State.HEALTHY


def test_an_xid_that_needs_a_reset_outlives_quiet_time_and_the_agent(health: Health) -> None:
    health.states.blame(xid_fault(CARD, 48))
    assert health.probe() is State.QUARANTINED
    health.start()
    assert health.card.state is State.QUARANTINED
    assert health.probe() is State.QUARANTINED
    assert health.card.reason == "Xid48"
    assert "WORKFLOW_XID_48" in health.card.text


def test_a_reset_which_shows_by_loss_and_return_ends_an_xid(health: Health) -> None:
    health.states.blame(xid_fault(CARD, 79))
    assert health.look(LOST) is State.QUARANTINED
    assert health.look(NO_ANSWER) is State.QUARANTINED, "its driver starts"
    assert health.probe() is State.HEALTHY


def test_a_card_that_was_only_slow_to_answer_was_not_reset(health: Health) -> None:
    health.states.blame(xid_fault(CARD, 48))
    health.look(NO_ANSWER)
    assert health.probe() is State.QUARANTINED


@pytest.mark.parametrize(
    ("number", "ends"), [(48, Ends.RESET), (151, Ends.BOOT), (142, Ends.PERSON)]
)
def test_a_boot_ends_what_it_can(health: Health, number: int, ends: Ends) -> None:
    assert XID_RULES[number].ends is ends
    health.states.blame(xid_fault(CARD, number))
    health.start(boot="another")
    expected = State.QUARANTINED if ends is Ends.PERSON else State.HEALTHY
    assert health.probe() is expected
    health.start(boot="another")  # the boot is noted once
    assert health.look() is expected


def test_a_reset_does_not_end_what_needs_a_boot(health: Health) -> None:
    health.states.blame(xid_fault(CARD, 151))
    health.look(LOST)
    assert health.probe() is State.QUARANTINED


def test_an_unknown_xid_closes_the_card_until_it_was_quiet(health: Health) -> None:
    assert 499 not in XID_RULES
    health.states.blame(xid_fault(CARD, 499))
    assert health.look() is State.PROBED
    health.states.blame(xid_fault(CARD, 499))
    assert health.look(after=_PROBE) is State.PROBED, "the new one begins the time anew"
    assert health.look(after=_PROBE) is State.HEALTHY


def test_what_a_person_took_no_probe_and_no_boot_gives_back(health: Health) -> None:
    health.states.quarantine(CARD, "fan is loud\n<3>forged")
    assert health.probe() is State.QUARANTINED
    health.start(boot="another")
    assert health.probe() is State.QUARANTINED
    assert health.card.reason == HELD
    assert health.card.text == "by hand: fan is loud\\n<3>forged"
    assert health.states.release(CARD, "").state is State.HEALTHY


def test_a_person_releases_what_a_rule_took_at_once(health: Health) -> None:
    health.states.blame(xid_fault(CARD, 142))
    health.look()
    assert health.states.release(CARD, "replaced").state is State.HEALTHY
    assert health.card.history[-1].text == "released by hand: replaced"
    assert health.look() is State.HEALTHY


def test_a_person_may_use_a_card_with_a_pending_remap(health: Health) -> None:
    assert health.look(REMAP) is State.UNHEALTHY
    assert health.states.release(CARD, "").state is State.HEALTHY
    assert health.look(REMAP) is State.HEALTHY
    health.start()
    assert health.look(REMAP) is State.HEALTHY, "the person's word stands over a restart"
    assert health.look() is State.HEALTHY
    assert health.look(REMAP) is State.UNHEALTHY, "the next one is another"


def test_no_person_can_use_a_lost_card(health: Health) -> None:
    health.look(LOST)
    assert health.states.release(CARD, "").state is State.UNHEALTHY
    assert health.card.reason == "Lost"


def test_a_card_that_is_probed_is_probed_again_by_the_next_agent(health: Health) -> None:
    health.look(NO_ANSWER)
    health.look()
    health.start()
    assert health.look(after=_PROBE) is State.PROBED
    assert health.look(after=_PROBE) is State.HEALTHY


def test_an_operator_may_ignore_an_xid(health: Health) -> None:
    health.states.rules = HealthRules(probe_seconds=_PROBE, ignored_xids=frozenset({74}))
    health.states.blame(xid_fault(CARD, 74))
    assert health.look() is State.HEALTHY
    health.states.blame(xid_fault(CARD, 48))
    assert health.look() is State.QUARANTINED


def test_the_history_and_the_labels_are_bounded(health: Health) -> None:
    for number in range(200, 300):
        health.states.blame(xid_fault(CARD, number))
        health.look()
    assert len(health.card.history) == MOST_CHANGES
    assert set(health.states.faults) == {card_states.OTHER_XID}
    assert health.states.by_reason([CARD]) == {card_states.OTHER_XID: 1}


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": "../9"}', "torn", "other"])
def test_a_file_that_can_not_be_used_is_named_and_kept(
    health: Health, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    health.states.quarantine(CARD, "")
    file = tmp_path / "health.json"
    text = file.read_text()
    document = json.loads(text)
    document["data"]["cards"][0]["held"] = None
    file.write_text({"torn": text[:-20], "other": json.dumps(document)}.get(damage, damage))
    health.start()
    assert str(file) in caplog.text
    assert (tmp_path / "health.json.broken").exists()
    assert health.look() is State.HEALTHY
    health.states.quarantine(CARD, "")
    health.start()
    assert health.look() is State.QUARANTINED


def test_the_file_of_a_newer_agent_is_kept_by_its_version(
    health: Health, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "health.json"
    newer = file.read_text().replace('"version": 1', '"version": 2')
    for text in (newer, "damaged after it"):
        file.write_text(text)
        health.start()
    kept = tmp_path / "health.json.version-2"
    assert kept.read_text() == newer
    assert "version 2; this agent reads 1" in caplog.text
    assert str(kept) in caplog.text


def test_states_that_can_not_be_written_are_a_problem_and_hold(
    health: Health, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "health.json"
    file.unlink()
    file.mkdir()
    (file / "x").touch()
    health.states.blame(xid_fault(CARD, 48))
    assert health.card.state is State.QUARANTINED
    assert str(file) in health.states.problem
    (file / "x").unlink()
    file.rmdir()
    health.look()
    assert health.states.problem == ""
    health.start()
    assert health.look() is State.QUARANTINED


def test_cards_of_another_time_stay_in_the_file(health: Health, tmp_path: pathlib.Path) -> None:
    health.states.quarantine(CARD, "")
    health.start()
    health.states.observe(["GPU-2"], ())
    health.states.quarantine("GPU-2", "")
    health.start()
    assert health.look() is State.QUARANTINED
