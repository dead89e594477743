"""A container's root in a folder: this machine's C library, ld.so.preload, the product's files.

Nothing is mounted and no runtime is needed: `chroot` enters it, and the loader reads the
container's own /etc/ld.so.preload, as it does behind containerd.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from gpustack.adapters import mapped
from gpustack.wire.mapped import activity, ledger
from tests.hook.container import CARD, CARD_BYTES, SHARE_BYTES, share

PROGRAMS = pathlib.Path(__file__).parent / "programs"
HOOK_PATH = "etc/vcuda/hook/libvcuda.so"
PRELOAD = "etc/ld.so.preload"
LIBRARIES = "usr/local/nvidia/lib64"
_NOTHING: Final[Mapping[str, str]] = {}


class Root:
    """A container with a quarter of an 8 GiB card; programs lie in /bin.

    Attributes:
        folder: what `chroot` enters.
    """

    def __init__(self, folder: pathlib.Path, build: pathlib.Path, driver: pathlib.Path) -> None:
        self.folder = folder
        self._driver = driver
        for name in ("bin", "dev", "etc/vcuda", "run", "tmp", "var/lib/simgpu", LIBRARIES):
            (folder / name).mkdir(parents=True)
        for path in ("", "run", "var", "var/lib", "var/lib/simgpu", "tmp"):
            (folder / path).chmod(0o777)  # with any umask
        self._install(build, driver)
        self._start_driver()

    def _install(self, build: pathlib.Path, driver: pathlib.Path) -> None:
        hook = self.folder / HOOK_PATH
        hook.parent.mkdir(parents=True)
        shutil.copy(build / "x86_64" / "libvcuda.so", hook)
        selftest = self.add(build / "x86_64" / "gpustack-hook-selftest")
        for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
            shutil.copy(driver / "lib" / library, self.folder / LIBRARIES)
            self.add_needed(driver / "lib" / library)
        self.add_needed(selftest)
        (self.folder / PRELOAD).write_text(f"/{HOOK_PATH}\n")
        mapped.create_limits(self.folder / "etc/vcuda/limits", share(SHARE_BYTES))
        nothing = activity.Activity(sampled_ns=0, cards=())
        mapped.create_activity(self.folder / "etc/vcuda/activity", nothing)
        mapped.create_ledger(self.folder / "etc/vcuda/ledger", [CARD])

    def _start_driver(self) -> None:
        for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
            (self.folder / "dev" / name).touch(mode=0o666)
            (self.folder / "dev" / name).chmod(0o666)
        cards = self.folder / "etc/cards.json"
        card = {"minor": 0, "uuid": CARD, "memory": CARD_BYTES}
        cards.write_text(json.dumps({"cards": [card]}))
        environment = self.on_host()
        subprocess.run([self._driver / "bin" / "simgpu", "init"], check=True, env=environment)

    def on_host(self) -> dict[str, str]:
        """Return the environment of a program outside, which sees the same card unhooked."""
        return os.environ | {
            "LD_LIBRARY_PATH": str(self._driver / "lib"),
            "SIMGPU_STATE": str(self.folder / "var/lib/simgpu/state"),
            "SIMGPU_DEV": str(self.folder / "dev"),
            "SIMGPU_CARDS": str(self.folder / "etc/cards.json"),
        }

    def add(self, program: pathlib.Path, into: str = "bin") -> pathlib.Path:
        """Copy a program into the root."""
        (self.folder / into).mkdir(parents=True, exist_ok=True)
        return pathlib.Path(shutil.copy(program, self.folder / into))

    def add_needed(self, program: pathlib.Path) -> None:
        """Copy this machine's files for a dynamically linked program: libc and its loader."""
        listed = subprocess.check_output(["ldd", program], text=True)
        for path in re.findall(r"(/\S+) \(0x", listed):
            # Programs that another loader started search for this one as a library.
            real = pathlib.Path(path).resolve()
            for target in (self.folder / path.lstrip("/"), self._search_path(real)):
                target.parent.mkdir(parents=True, exist_ok=True)
                if not target.exists():
                    shutil.copy(real, target)

    def _search_path(self, library: pathlib.Path) -> pathlib.Path:
        return self.folder / "lib" / "x86_64-linux-gnu" / library.name

    def start(
        self,
        *command: str,
        user: int = 0,
        inner: str = "/",
        environment: Mapping[str, str] = _NOTHING,
    ) -> subprocess.Popen[str]:
        """Start a program inside, with nothing but the given environment."""
        given = {"LD_LIBRARY_PATH": f"/{LIBRARIES}"} | dict(environment)
        return subprocess.Popen(
            ["chroot", f"--userspec={user}:{user}", str(self.folder / inner.lstrip("/")), *command],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | given,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *command: str, user: int = 0, environment: Mapping[str, str] = _NOTHING) -> str:
        """Run a program inside to its end and return its output."""
        with self.start(*command, user=user, environment=environment) as process:
            output, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, f"{process.returncode}: {output}{complaint}"
        return output.strip()

    def use(self) -> ledger.CardUse:
        """Return the agent's reading of the container's card."""
        return mapped.read_ledger(self.folder / "etc/vcuda/ledger").cards[0]

    def seen_bytes(self, pid: int) -> int:
        """Return the memory of a process as the driver tells it outside."""
        query = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
        listed = subprocess.check_output(
            [self._driver / "bin" / "nvidia-smi", *query], env=self.on_host(), text=True
        )
        rows = (line.split(",") for line in listed.splitlines())
        return sum(int(used) << 20 for listed_pid, used in rows if int(listed_pid) == pid)


def compiled(folder: pathlib.Path, source: str, name: str, *flags: str) -> pathlib.Path:
    """Compile one of `programs/` with this machine's compiler."""
    target = folder / name
    command = ["gcc", "-O1", "-w", str(PROGRAMS / source), *flags, "-o", str(target), "-ldl"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return target


def compiled_for_musl(folder: pathlib.Path, source: str, name: str, *flags: str) -> pathlib.Path:
    """Compile one of `programs/` for musl, statically, with the compiler of the product's files."""
    target = folder / name
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-musl"]
    command = [*compiler, "-O1", "-w", *flags, str(PROGRAMS / source), "-o", str(target)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return target
