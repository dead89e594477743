"""The agent of any release as a process: `python agent_process.py FOLDER`, PYTHONPATH its sources.

FOLDER is laid out by `tests/versions/cluster.py`; the simulated driver is the environment's. It
runs until it gets SIGTERM.
"""

import pathlib
import signal
import sys
from types import FrameType

from gpustack.adapters import systemd
from gpustack.adapters.nvml import Nvml
from gpustack.agent import settings
from gpustack.agent.app import Agent


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    systemd.set_up_log("INFO", journal=False)
    store = getattr(systemd, "DescriptorStore", None)  # 0.1.0 holds no files open
    agent = Agent(
        settings.load(folder / "agent.yml"),
        nvml=Nvml(),
        device_dir=folder / "dev",
        linker_cache=(folder / "linker_cache").read_text(),
        **({} if store is None else {"store": store()}),
    )

    def stop(_: int, __: FrameType | None) -> None:
        agent.tasks.stop.set()

    signal.signal(signal.SIGTERM, stop)
    agent.start()
    agent.serve(systemd.Notifier.from_environment())
    agent.close()


if __name__ == "__main__":
    main()
