"""A host with shares of one card: files by the agent's own code, programs as in a container."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from gpustack.adapters import mapped
from gpustack.adapters.systemd import DescriptorStore
from gpustack.agent.containers.held_files import HeldFiles
from gpustack.agent.containers.limits_files import LimitsFiles
from gpustack.agent.mounts.share_mounts import ShareMounts
from gpustack.model.placement import ContainerPlacement
from gpustack.model.units import MEMORY_UNIT_BYTES
from gpustack.wire.mapped.ledger import CardUse
from tests.gpu import bundle
from tests.gpu.cards import CheckedCard
from tests.testbed import paths

_ENTER: Final = bundle.PROGRAMS / "enter.sh"
_KERNELS: Final = bundle.PROGRAMS / "kernels.ptx"
CONTAINER: Final = "main"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """How a program comes to its container's files and to the hook.

    Attributes:
        named: by a mount namespace, under the paths that a container has; else the hook of the
            tests is preloaded, which looks into its working folder.
        why_not: why there is no mount namespace, "" where there is one.
    """

    why_not: str = ""

    @property
    def named(self) -> bool:
        """Whether the product's hook is in the product's places."""
        return not self.why_not

    @property
    def hook(self) -> pathlib.Path:
        """The folder of the hook that goes with them."""
        return bundle.hook_folder(named_paths=self.named)


class Client:
    """A program that answers lines; its process is the container's."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    @property
    def pid(self) -> int:
        """Its PID, here and in the container."""
        return self.process.pid

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def tell(self, word: str) -> None:
        """Give it something to do."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Return what it said to that; a text is an error's name."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it has ended: {self.process.communicate()[1]}"
        return json.loads(line)

    def ask(self, word: str) -> Any:
        self.tell(word)
        return self.answer()


class Programs:
    """Starts programs on the card, without the hook."""

    def __init__(self, card: CheckedCard) -> None:
        # One card only, whatever else is in the machine: what has no limits is closed.
        self._environment = os.environ | {
            "CUDA_VISIBLE_DEVICES": card.card.uuid,
            "PYTHONPATH": os.pathsep.join(
                [str(paths.REPOSITORY), os.environ.get("PYTHONPATH", "")]
            ).rstrip(os.pathsep),
        }

    def start(self, *command: str | pathlib.Path) -> subprocess.Popen[str]:
        """Start one; its three ends are pipes."""
        words, environment, folder = self._placed([str(word) for word in command])
        return subprocess.Popen(
            words,
            env={**self._environment, **environment},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str | pathlib.Path, timeout: float = 120) -> str:
        """Run one to its end and return what it printed."""
        with self.start(*command) as process:
            try:
                output, complaint = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert process.returncode == 0, f"{process.returncode}: {output}{complaint}"
        return output

    def client(self, *command: str | pathlib.Path) -> Client:
        """Start one that answers lines."""
        return Client(self.start(*command))

    def _placed(
        self, command: Sequence[str]
    ) -> tuple[Sequence[str], Mapping[str, str], pathlib.Path | None]:
        """Return the command, what it needs in its environment, and its working folder."""
        return command, {}, None


class Container(Programs):
    """A container with a share of the card."""

    def __init__(self, card: CheckedCard, walls: Walls, folder: pathlib.Path) -> None:
        super().__init__(card)
        self._walls = walls
        self.folder = folder
        self.pids: set[int] = set()
        self.hook = folder.parents[2] / "hooks" / "here"

    def use(self) -> CardUse:
        """Return what the agent reads of its card."""
        return mapped.read_ledger(self.folder / "ledger").cards[0]

    def start(self, *command: str | pathlib.Path) -> subprocess.Popen[str]:
        """Start a program in it."""
        process = super().start(*command)
        self.pids.add(process.pid)  # unshare and the shell become the program
        return process

    def _placed(
        self, command: Sequence[str]
    ) -> tuple[Sequence[str], Mapping[str, str], pathlib.Path | None]:
        library = str(self.hook / "libvcuda.so")
        if not self._walls.named:
            return command, {"LD_PRELOAD": library}, self.folder
        entered = ["unshare", "--mount", "sh", str(_ENTER), str(self.folder), library, *command]
        return entered, {}, None


class Host:
    """All shares of one card.

    Args:
        card: the card.
        walls: what stands around a container.
        root: an empty folder.
        context_bytes: what a context takes, as the agent's configuration says it.
    """

    def __init__(
        self, card: CheckedCard, walls: Walls, root: pathlib.Path, *, context_bytes: int
    ) -> None:
        self.card = card
        self.root = root
        self.context_bytes = context_bytes
        self.folders = LimitsFiles(
            root / "containers",
            context_bytes=context_bytes,
            may_run=lambda _uid, _name: True,
            held=HeldFiles(DescriptorStore()),
            mounts=ShareMounts(None),
        )
        self.placements: dict[str, ContainerPlacement] = {}
        self.containers: dict[str, Container] = {}
        self._walls = walls
        shutil.copytree(walls.hook, root / "hooks" / "here")

    @property
    def share_bytes(self) -> int:
        """What a share has, where nothing else is said: 16 GiB, or half of a smaller card."""
        bytes_ = min(16 << 30, self.card.card.memory_bytes // 2)
        return bytes_ // MEMORY_UNIT_BYTES * MEMORY_UNIT_BYTES

    def container(
        self,
        name: str,
        *,
        cores: int,
        burst: int | None = None,
        memory_bytes: int | None = None,
    ) -> Container:
        """Make a container with a share, as Allocate does."""
        placement = ContainerPlacement(
            name=CONTAINER,
            index=0,
            minors=(self.card.card.minor,),
            uuids=(self.card.card.uuid,),
            cores=cores,
            memory_units=(memory_bytes or self.share_bytes) // MEMORY_UNIT_BYTES,
        )
        folder = self.folders.prepare(name, placement, burst)
        self.placements[name] = placement
        self.containers[name] = Container(self.card, self._walls, folder)
        return self.containers[name]

    def bare(self) -> Programs:
        """Return what starts programs outside all containers."""
        return Programs(self.card)


def find_walls(card: CheckedCard, root: pathlib.Path) -> Walls:
    """Return mount namespaces where this machine and user can have them."""
    host = Host(card, Walls(), root, context_bytes=0)
    try:
        host.container("probe", cores=50).run("true")
    except (OSError, AssertionError) as error:
        return Walls(why_not=str(error).strip().splitlines()[-1])
    return Walls()


def tenant(*arguments: object) -> list[str]:
    """Return the command line of the program that always has work (`programs/tenant.c`)."""
    return [str(bundle.FOLDER / "tenant"), str(_KERNELS), *map(str, arguments)]
