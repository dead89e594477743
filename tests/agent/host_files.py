"""What the roles have laid out on a GPU host before its agent starts."""

import pathlib
import shutil

from gpustack.adapters.hook_build import content_sum

DRIVER = "535.261.03"


class InstalledFiles:
    """Device nodes, driver libraries and a hook below one folder.

    Attributes:
        state: the agent's state folder.
        devices: stands for /dev.
        hook: a build of the hook.
        linker_cache: what `ldconfig -p` prints.
    """

    def __init__(self, root: pathlib.Path) -> None:
        self._libraries = root / "lib"
        self.state = root / "state"
        self.devices = root / "dev"
        self.devices.mkdir()
        for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
            (self.devices / name).touch()
        self.hook = self.install_hook("0.1.0")
        self.install_driver(DRIVER)

    def install_hook(
        self,
        version: str,
        preload: str = "/etc/vcuda/hook/libvcuda.so\n",
        *,
        layouts: str | None = "1 2\n",
    ) -> pathlib.Path:
        """Lay a build of the hook out as the role does; return its folder.

        ``layouts`` are those that it reads; None: of a release that didn't name them.
        """
        folder = self.state / "hooks" / version
        folder.mkdir(parents=True)
        for name in ("libvcuda.so", "gpustack-hook-selftest"):
            (folder / name).write_text(f"{name} {version}")
        (folder / "ld.so.preload").write_text(preload)
        if layouts is not None:
            (folder / "layouts").write_text(layouts)
        return folder.rename(f"{folder}-{content_sum(folder)}")

    def install_driver(self, version: str) -> None:
        """Put a driver's libraries in the place of those that are there."""
        shutil.rmtree(self._libraries, ignore_errors=True)
        self._libraries.mkdir()
        lines = []
        for stem in ("libcuda.so", "libnvidia-ml.so"):
            (self._libraries / f"{stem}.{version}").write_text(stem)
            (self._libraries / f"{stem}.1").symlink_to(f"{stem}.{version}")
            lines.append(f"\t{stem}.1 (libc6,x86-64) => {self._libraries}/{stem}.1")
        self.linker_cache = "\n".join(lines)
