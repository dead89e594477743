"""Every reason has its cure, and each command that one names is one of ours."""

import re
import shlex

import pytest

from gpustack.cli.main import main, parser
from gpustack.cli.reasons import text
from gpustack.model.cures import CURES
from gpustack.model.refusal import REASON_WORDS, Reason

NAMED = [
    (reason, command)
    for reason, cure in CURES.items()
    for command in re.findall("`gpustack ([^`]+)`", cure)
]


@pytest.mark.parametrize("reason", Reason)
def test_help_of_a_code_says_what_it_means_and_what_to_do(
    reason: Reason, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["help", reason]) == 0
    shown = capsys.readouterr().out
    assert shown == text(reason) + "\n"
    assert shown.startswith(f"{reason}: {REASON_WORDS[reason]}\n")
    assert " ".join(shown.split()).endswith(CURES[reason])


@pytest.mark.parametrize(("reason", "command"), NAMED)
def test_each_command_of_a_cure_is_one_of_ours(reason: Reason, command: str) -> None:
    assert parser().parse_args(shlex.split(command)).command, reason


def test_a_code_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["help", "NoCard"])
    assert "invalid choice: 'NoCard'" in capsys.readouterr().err
