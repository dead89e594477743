"""pynvml in a process of its own, because it loads the machine's library by its SONAME.

Run as a program it reads calls (JSON, one a line: name and arguments; {"card": I} stands for a
handle) and writes their answers. `Nvml` is the other end.
"""

import ctypes
import json
import subprocess
import sys
import time
from types import TracebackType
from typing import Any

import pynvml

from tests.simgpu_tests.machine import Machine

NOT_FOUND = 6


class NvmlFailure(Exception):
    """NVML answered with an error; `code` is its number."""

    def __init__(self, code: int) -> None:
        super().__init__(f"NVML error {code}")
        self.code = code


class Nvml:
    """Calls pynvml functions by name on one machine."""

    def __init__(self, machine: Machine) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env=machine.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Nvml":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The process that asks."""
        return self._process.pid

    def send(self, name: str, *args: Any) -> None:
        """Begins a call."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, *args]) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """Ends a call that `send` began.

        Raises:
            NvmlFailure: NVML answered with an error.
        """
        assert self._process.stdout is not None
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise NvmlFailure(answer["error"])
        return answer["value"]

    def ask(self, name: str, *args: Any) -> Any:
        """One call.

        Raises:
            NvmlFailure: NVML answered with an error.
        """
        self.send(name, *args)
        return self.receive()


def now_us() -> int:
    return time.time_ns() // 1000


def percents(session: Nvml, since_us: int) -> dict[int, int]:
    """By PID, the average over the windows that ended after a moment."""
    try:
        samples = session.ask("nvmlDeviceGetProcessUtilization", {"card": 0}, since_us)
    except NvmlFailure as failure:
        if failure.code != NOT_FOUND:
            raise
        return {}
    return {sample["pid"]: sample["smUtil"] for sample in samples}


def newest_us(session: Nvml, before_us: int = 0) -> int:
    """The end of the newest window that NVML tells of, once it is after a moment."""
    while True:
        try:
            samples = session.ask("nvmlDeviceGetProcessUtilization", {"card": 0}, before_us)
            return max(int(sample["timeStamp"]) for sample in samples)
        except NvmlFailure as failure:
            if failure.code != NOT_FOUND:
                raise


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple | ctypes.Array):
        return [_plain(item) for item in value]
    if hasattr(value, "_fields_"):
        fields = [name for name, *_ in value._fields_ if name != "device"]
        return {name: _plain(getattr(value, name)) for name in fields}
    if isinstance(value, pynvml.nvmlFriendlyObject):
        return _plain_object(value)
    return value.decode() if isinstance(value, bytes) else value


def _plain_object(value: Any) -> dict[str, Any]:
    return {name: _plain(item) for name, item in vars(value).items() if name != "device"}


def _serve() -> None:
    event_set: Any = None
    for line in sys.stdin:
        name, *args = json.loads(line)
        try:
            given = [
                pynvml.nvmlDeviceGetHandleByIndex(arg["card"]) if isinstance(arg, dict) else arg
                for arg in args
            ]
            if name in ("nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2"):
                given = [*given, event_set] if "Register" in name else [event_set, *given]
            value = getattr(pynvml, name)(*given)
            if name == "nvmlEventSetCreate":
                event_set, value = value, None
            answer = {"value": _plain(value)}
        except pynvml.NVMLError as error:
            answer = {"error": error.value}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
