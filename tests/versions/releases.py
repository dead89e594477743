"""Three neighbours: the release before, this tree, and the one after with newer file layouts."""

import dataclasses
import pathlib
import re
import shutil

import pytest

from gpustack.adapters.hook_build import content_sum
from tests.hook.container import make
from tests.testbed import paths
from tests.testbed.progress import TestbedError
from tests.upgrades import earlier_release

_LIBRARY = "out/test/libvcuda.so"
NEXT_LAYOUT, NEXT_RECORDS, NEXT_CARDS = 3, 3, 2
_PRELOAD = re.compile(r'^PRELOAD = "(.*)\\n"$', re.MULTILINE)
_PATHS = re.compile(r'^#define HOOK_(\w+)_PATH "(.*)"$', re.MULTILINE)
# What the release after changes: file, text before, text after. Nothing but the numbers: a program
# that doesn't know them can't tell that the rest is as it was.
RAISED = (
    ("gpustack/wire/mapped/two_slot_page.py", "LAYOUT_VERSION = 2", "LAYOUT_VERSION = 3"),
    ("hook/include/vcuda_layout.h", "VCUDA_LAYOUT_VERSION 2u", "VCUDA_LAYOUT_VERSION 3u"),
    ("hook/include/vcuda_layout.h", "VCUDA_LAYOUT_VERSION == 2", "VCUDA_LAYOUT_VERSION == 3"),
    ("gpustack/adapters/checkpoint.py", "VERSION: Final = 2", "VERSION: Final = 3"),
    ("gpustack/agent/health/state_file.py", "_VERSION: Final = 1", "_VERSION: Final = 2"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A checkout, with the tests' variant of its hook.

    Attributes:
        name: in the names of tests.
        source: the folder with its packages.
        library: of the same sources as the product's, for files in the working folder.
        layouts: what its hook's build names; None where it names none.
        layout: the newest that its agent writes.
    """

    name: str
    source: pathlib.Path
    library: pathlib.Path
    layouts: str | None
    layout: int

    @property
    def preload(self) -> str:
        """Where its hook's build says that it lies in a container."""
        found = _PRELOAD.search((self.source / "playbooks/scripts/bundle.py").read_text("utf-8"))
        assert found, self.name
        return found[1]

    @property
    def paths(self) -> dict[str, str]:
        """Where its hook reads its files in a container, by their names."""
        found = _PATHS.findall((self.source / "hook/src/shared/paths.h").read_text("utf-8"))
        return {name.lower(): path for name, path in found}

    def install_hook(self, hooks: pathlib.Path) -> pathlib.Path:
        """Lay its build of the hook out as the role does; return its folder."""
        folder = hooks / f"{self.name}-new"
        folder.mkdir(parents=True)
        shutil.copy(self.library, folder)
        (folder / "gpustack-hook-selftest").write_text(self.name)
        (folder / "ld.so.preload").write_text(f"{self.preload}\n")
        if self.layouts is not None:
            (folder / "layouts").write_text(self.layouts)
        made = hooks / f"{self.name}-{content_sum(folder)}"
        if made.exists():
            shutil.rmtree(folder)
            return made
        return folder.rename(made)


class Releases:
    """The three by name: `old`, `ours` and `next`; each is made when a test asks for it.

    Args:
        folder: an empty one.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._made: dict[str, Release] = {}

    def __getitem__(self, name: str) -> Release:
        if name not in self._made:
            try:
                self._made[name] = self._make(name)
            except TestbedError as error:
                pytest.skip(f"{error}: git fetch --unshallow brings the commit of 0.1.0")
        return self._made[name]

    def _make(self, name: str) -> Release:
        if name == "old":
            return earlier()
        return {"ours": ours, "next": following}[name](self._folder / name)


def earlier() -> Release:
    """Return 0.1.0.

    Raises:
        TestbedError: git has no such commit.
    """
    source = earlier_release.source()
    library = source / "hook" / _LIBRARY
    return Release(name="0.1.0", source=source, library=library, layouts=None, layout=1)


def ours(folder: pathlib.Path) -> Release:
    """Return this tree, with its hook built in a new folder: other tests build it in its place."""
    _copy(folder, "hook", "gpustack/__init__.py")
    return Release(
        name="ours",
        source=paths.REPOSITORY,
        library=_built(folder),
        layouts="1 2\n",
        layout=2,
    )


def following(folder: pathlib.Path) -> Release:
    """Make the release after this tree in a new folder: its layouts are newer by one."""
    _copy(folder, "gpustack", "extender", "hook", "playbooks/scripts")
    for name, before, after in RAISED:
        file = folder / name
        text = file.read_text("utf-8")
        assert text.count(before) == 1, (name, before)
        file.write_text(text.replace(before, after), "utf-8")
    return Release(
        name="next",
        source=folder,
        library=_built(folder),
        layouts="1 2 3\n",
        layout=NEXT_LAYOUT,
    )


def _copy(folder: pathlib.Path, *names: str) -> None:
    for name in names:
        source, target = paths.REPOSITORY / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("out"))
        else:
            shutil.copy(source, target)


def _built(folder: pathlib.Path) -> pathlib.Path:
    # Not optimized: nothing is measured, and it is built for each run.
    make(folder / "hook", _LIBRARY, "CFLAGS=-std=c11 -O0")
    return folder / "hook" / _LIBRARY
