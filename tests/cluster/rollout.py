"""Run a playbook as an operator does and read its recap."""

import dataclasses
import os
import pathlib
import re
import subprocess
from typing import IO

from tests import step
from tests.testbed import paths

INVENTORY = "inventories/demo"
ROOT = pathlib.Path(__file__).resolve().parents[2]
RECAP = re.compile(
    r"^(?P<host>\S+)\s+: ok=(?P<ok>\d+)\s+changed=(?P<changed>\d+)"
    r"\s+unreachable=(?P<unreachable>\d+)\s+failed=(?P<failed>\d+)",
    re.MULTILINE,
)


TASK = re.compile(r"^(?:TASK|RUNNING HANDLER) \[(?P<name>.*)\] \*+$", re.MULTILINE)


class PlaybookError(Exception):
    """ansible-playbook failed; the text is the end of its output and the log's name.

    Attributes:
        status: the one that it exited with.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recap:
    """One host's line of the recap, and the names of the tasks that changed it."""

    ok: int
    changed: int
    unreachable: int
    failed: int
    changes: tuple[str, ...]


def parse_recap(output: str) -> dict[str, Recap]:
    """Read the PLAY RECAP of ansible's default output."""
    # the text before the first task, then name and text of each
    named = list(zip(*[iter(TASK.split(output)[1:])] * 2, strict=True))
    return {
        match["host"]: Recap(
            ok=int(match["ok"]),
            changed=int(match["changed"]),
            unreachable=int(match["unreachable"]),
            failed=int(match["failed"]),
            changes=tuple(
                name
                for name, text in named
                if re.search(rf"^changed: \[{re.escape(match['host'])}[\] ]", text, re.M)
            ),
        )
        for match in RECAP.finditer(output.partition("PLAY RECAP")[2])
    }


def log_of(testbed: str, playbook: str) -> pathlib.Path:
    """Return where the last run of a playbook, by its name, has written."""
    return step.log_directory() / f"{testbed}-{playbook}.log"


def start_playbook(
    testbed: str,
    playbook: str,
    *extra: str,
    output: int | IO[str],
    root: pathlib.Path = ROOT,
    inventory: str = INVENTORY,
    group: int | None = None,
) -> subprocess.Popen[str]:
    """Start a playbook of the repository on a testbed.

    The demo's inventory is told which testbed it speaks of. The environment is made from
    nothing, because nsenter hands the controller's on to the host.

    Args:
        testbed: its name.
        playbook: its path in the repository.
        extra: more arguments.
        output: where stdout and stderr go, as ``subprocess.Popen`` takes it.
        root: another checkout, with a bundle of its own.
        inventory: another than the demo's.
        group: 0 makes a process group, which can be killed as a whole.
    """
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(pathlib.Path.home()),
        "LANG": "C.UTF-8",
        "GPUSTACK_TESTBED_STATE": str(paths.state_root()),
        "GPUSTACK_TESTBED_NAME": testbed,
    }
    return subprocess.Popen(
        ["ansible-playbook", "-i", inventory, *extra, playbook],
        cwd=root,
        env=environment,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=group,
    )


def run_playbook(
    testbed: str,
    playbook: str,
    *extra: str,
    root: pathlib.Path = ROOT,
    inventory: str = INVENTORY,
) -> dict[str, Recap]:
    """Run a playbook as ``start_playbook`` does; return the recap by host.

    Raises:
        PlaybookError: a host failed.
    """
    log = log_of(testbed, pathlib.Path(playbook).stem)
    with log.open("w") as sink:
        status = start_playbook(
            testbed, playbook, *extra, output=sink, root=root, inventory=inventory
        ).wait()
    output = log.read_text()
    if status:
        tail = "\n".join(output.splitlines()[-60:])
        text = f"{playbook} exited with {status}; log: {log}\n{tail}"
        raise PlaybookError(text, status)
    return parse_recap(output)
