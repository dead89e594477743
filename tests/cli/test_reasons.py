"""Every code has its cure, and each command that one names is one of ours."""

import re
import shlex

import pytest

from gpustack.cli.main import main, parser
from gpustack.cli.reasons import text
from gpustack.model.codes import MEANINGS

NAMED = [
    (code, command)
    for code, meaning in MEANINGS.items()
    for command in re.findall("`gpustack ([^`]+)`", meaning.cure)
]


@pytest.mark.parametrize("code", MEANINGS)
def test_help_of_a_code_says_what_it_means_and_what_to_do(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["help", code]) == 0
    shown = capsys.readouterr().out
    meaning = MEANINGS[code]
    assert shown == text(code) + "\n"
    assert shown.startswith(f"{code}: {meaning.words}\n")
    assert meaning.cure in " ".join(shown.split())
    assert shown.endswith(f"{meaning.where}; {meaning.page}\n")


@pytest.mark.parametrize(("code", "command"), NAMED)
def test_each_command_of_a_cure_is_one_of_ours(code: str, command: str) -> None:
    assert parser().parse_args(shlex.split(command)).command, code


def test_a_code_that_there_is_not_is_refused_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["help", "NoCard"])
    told = capsys.readouterr().err
    assert "'NoCard' is no command" in told
    assert "Reason." not in told
