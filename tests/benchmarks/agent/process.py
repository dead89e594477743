"""The agent as a process of its own: `python -m tests.benchmarks.agent.process FOLDER`.

FOLDER is laid out by `section.py`; the simulated driver is the environment's. It
prints a line once it has registered, and runs until it gets SIGTERM.
"""

import gc
import pathlib
import signal
import sys
import threading
from types import FrameType

from gpustack.adapters.nvml import Nvml
from gpustack.adapters.systemd import DescriptorStore, Notifier
from gpustack.agent import settings
from gpustack.agent.app import Agent


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    agent = Agent(
        settings.load(folder / "agent.yml"),
        nvml=Nvml(),
        store=DescriptorStore(),
        device_dir=folder / "dev",
        linker_cache=(folder / "linker_cache").read_text(),
    )

    def stop(_: int, __: FrameType | None) -> None:
        agent.tasks.stop.set()

    signal.signal(signal.SIGTERM, stop)
    agent.start()
    gc.freeze()  # as gpustack.agent.main does
    serving = threading.Thread(target=agent.serve, args=(Notifier.from_environment(),))
    serving.start()
    print("started", flush=True)
    serving.join()
    agent.close()


if __name__ == "__main__":
    main()
