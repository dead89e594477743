"""A simulated machine in a folder: state, device nodes and the programs that use them."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "simgpu"
OUT = SOURCE / "out"
TIMEOUT_SECONDS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """One folder that stands for one machine's driver.

    Attributes:
        folder: holds cards.json, state and the stand-ins for device nodes.
    """

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """The environment of a process on this machine."""
        return os.environ | {
            "SIMGPU_STATE": str(self.folder / "lib" / "state"),
            "SIMGPU_DEV": str(self.folder / "dev"),
            "SIMGPU_CARDS": str(self.folder / "cards.json"),
            "LD_LIBRARY_PATH": str(OUT / "lib"),
        }

    def describe(self, description: Mapping[str, Any]) -> None:
        """Writes the description file."""
        (self.folder / "cards.json").write_text(json.dumps(description))

    def start(self, *minors: int) -> None:
        """Makes the state, and the nodes of the cards with these minors."""
        (self.folder / "dev").mkdir(exist_ok=True)
        nodes = [f"--create-nvidia-device-file={minor}" for minor in minors]
        self.run("bin/nvidia-modprobe", "-u", *nodes)

    def run(
        self, program: str, *args: str, status: int = 0, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Runs one of the built programs and checks its exit status."""
        done = subprocess.run(
            [str(OUT / program), *args],
            env=self.env,
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == status, f"{program} {args}: {done.stdout}{done.stderr}"
        return done

    def open(self, program: str, *args: str, prefix: Sequence[str] = ()) -> "subprocess.Popen[str]":
        """Starts one of the built programs; it lives until its input closes."""
        return subprocess.Popen(
            [*prefix, str(OUT / program), *args],
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def first_line(process: "subprocess.Popen[str]") -> str:
    """The line by which a client says that its part is done."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, "the client ended before its part was done"
    return line
