"""The command as the shell sees it: status, streams, signals; one line for each error."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

import gpustack
from gpustack.cli.main import COMMANDS, main, parser
from tests.cli.snapshots import node, pod, write

_NOBODY = 65534
GPUSTACK = [sys.executable, "-m", "gpustack.cli.main"]


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    said = capsys.readouterr()
    return caught.value.code, said.out, said.err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(capsys, "--version") == (0, f"gpustack {gpustack.__version__}\n", "")


@pytest.mark.parametrize("command", [each.__name__.rpartition(".")[2] for each in COMMANDS])
def test_every_option_of_every_command_is_explained(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, shown, told = ended(capsys, command.replace("_", "-"), "--help")
    assert (status, told) == (0, "")
    assert "default: None" not in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


@pytest.mark.parametrize("command", ["get", "what-if", "help", ""])
def test_help_says_what_the_option_says(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [command] if command else []
    assert main(["help", *words]) == 0
    shown = capsys.readouterr().out
    assert ended(capsys, *words, "--help") == (0, shown, "")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("help", "whatif"), "argument COMMAND: 'whatif' is no command (topo, card, "),
        (("help", "Lost"), "no code of docs/reference/reasons.md; `gpustack card list`"),
        (("whatif",), "invalid choice: 'whatif' (choose from 'topo'"),
        (("what-if", "--snap", "f", "--pod", "f"), "unrecognized arguments: --snap f"),
        (("usage", "-o", "xml"), "argument -o/--output: invalid choice: 'xml'"),
        (("replay",), "the following arguments are required: --trace"),
    ],
)
def test_wrong_use_is_one_line_and_names_the_help(
    arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, shown, told = ended(capsys, *arguments)
    assert (status, shown) == (2, "")
    [line] = told.splitlines()
    assert named in line
    assert line.endswith(" --help")


def test_the_command_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith("usage: gpustack")
    assert all(name in shown.out for name in ("topo", "usage", "explain", "what-if"))


VALUES = {
    "quota": "a/b",
    "count": "1",
    "add_nodes": "1",
    "seed": "1",
    "points": "1",
    "policies": "exact",
    "memory_mib": "1",
    "interval": "1",
    "pod_seconds": "1",
}
COUNTED = {
    ("what-if", "--drain"),
    ("get", "--state"),
    ("top", "--agent"),
    ("doctor", "--node"),
}  # all of them count


def options_with_a_value() -> list[tuple[str, str, str]]:
    """Return every name of every option that takes a value, with its command and such a value."""
    [commands] = [each for each in parser()._actions if each.dest == "command"]
    assert isinstance(commands.choices, dict)
    return [
        (command, text, str(next(iter(action.choices or [VALUES.get(action.dest, "x")]))))
        for command, below in commands.choices.items()
        for action in below._actions
        for text in action.option_strings
        if action.nargs != 0 and (command, text) not in COUNTED
    ]


@pytest.mark.parametrize(("command", "option", "value"), options_with_a_value())
def test_an_option_that_is_given_twice_is_refused_by_name(
    command: str, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, shown, told = ended(capsys, command, option, value, option, value)
    assert (status, shown) == (2, "")
    assert re.search(rf"argument (\S+/)?{option}(/\S+)?: given twice; give it once", told), told


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    write(tmp_path, node())
    (tmp_path / "pod.json").write_text(json.dumps(pod("web", 50, 8)))
    (tmp_path / "trace.csv").write_text("arrival,duration,cores,memory\n0,1,50,8\n")
    (tmp_path / "binary").write_bytes(b"\x7fELF\xd0\x00")
    (tmp_path / "empty").write_text("")
    (tmp_path / "cut.json").write_text('{"kind": "List",\n "items": [{"ki')
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "pod.json").read_bytes())
    return tmp_path


def asked(folder: pathlib.Path, **files: str) -> list[str]:
    named = {"snapshot": "snapshot.json", "pod": "pod.json", **files}
    options = ["--snapshot", str(folder / named["snapshot"])]
    if "trace" in files:
        return ["replay", *options, "--trace", str(folder / files["trace"])]
    return ["what-if", *options, "--pod", str(folder / named["pod"])]


@pytest.mark.parametrize("which", ["snapshot", "pod", "trace"])
@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("missing", ": No such file or directory"),
        (".", ": Is a directory"),
        ("binary", ": is not UTF-8 text at byte 4"),
        ("empty", ": "),
        ("cut.json", ":"),
        ("a\0b", ": embedded null byte"),  # without characters that could steer a terminal
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_with_its_name(
    folder: pathlib.Path, which: str, file: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(asked(folder, **{which: file})) == 2
    said = capsys.readouterr()
    [line] = said.err.splitlines()
    shown = str(folder / file).replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert line.startswith(f"gpustack: {shown}{named}")
    assert said.out == ""


def test_json_that_is_cut_off_is_named_by_line_and_column(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for which in ("snapshot", "pod"):
        assert main(asked(folder, **{which: "cut.json"})) == 2
        assert "cut.json:2:13: is not JSON: Unterminated string" in capsys.readouterr().err


def test_a_byte_order_mark_is_passed_over(folder: pathlib.Path) -> None:
    assert main(asked(folder, pod="marked.json")) == 0


def test_a_file_that_may_not_be_read_is_named(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = folder / "secret"
    secret.write_text("{}")
    secret.chmod(0)
    me = os.geteuid()
    if me == 0:  # root reads everything
        os.seteuid(_NOBODY)
    try:
        status = main(asked(folder, snapshot="secret"))
    finally:
        os.seteuid(me)
    assert status == 2
    assert capsys.readouterr().err == f"gpustack: {secret}: Permission denied\n"


def test_two_objects_of_one_name_are_refused_with_both_places(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, node(), pod("web", 50, 8), node())
    assert main(["usage", "--snapshot", path]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"gpustack: {path}: items[2] (node gpu1): is items[0] again"


def test_an_answer_that_finds_no_place_is_one_line(folder: pathlib.Path) -> None:
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [*GPUSTACK, *asked(folder)], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert run.returncode == 2
    assert run.stderr == "gpustack: can't write the answer: No space left on device\n"


def test_ctrl_c_ends_it_without_a_traceback(folder: pathlib.Path) -> None:
    # It waits for a pod on the standard input, which never comes.
    options = asked(folder)[:-1]
    with subprocess.Popen(
        [*GPUSTACK, *options, "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # a build's shell may have begun us in its background, where Ctrl-C is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as child:
        _wait_until_it_reads(child.pid)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (130, b"", b"")


def _wait_until_it_reads(pid: int) -> None:
    """Return once the process sleeps in read(0): then its start is over."""
    syscall = pathlib.Path(f"/proc/{pid}/syscall")
    while not syscall.read_text().startswith("0 0x0 "):
        os.sched_yield()


def test_a_pipe_gives_the_snapshot(folder: pathlib.Path) -> None:
    with open(folder / "snapshot.json") as given:
        run = subprocess.run(
            [*GPUSTACK, "usage", "--snapshot", "-", "-o", "json"],
            stdin=given,
            capture_output=True,
            check=True,
        )
    assert len(json.loads(run.stdout)["cards"]) == 2


def test_one_pipe_cannot_give_both(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, told = ended(capsys, "what-if", "--snapshot", "-", "--pod", "-")
    assert status == 2
    assert "only one of --snapshot and --pod can be the standard input" in told
    assert ended(capsys, "replay", "--snapshot", "-", "--trace", "-")[0] == 2
