"""Routing against the real driver's files: with the hook and without, answer by answer.

No card is needed: dlsym and cuGetProcAddress answer before cuInit. The tests
expect the driver's answers without us, with our gate in the place of each function that symbols.def
gates; so they need no list of versions and variants.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.hook.drivers import driver_files
from tests.hook.root import compiled

PROBES = pathlib.Path(__file__).parents[1] / "probes"
# Every number that cuda.h has had, one between two of them, and one of no toolkit.
VERSIONS = (
    *(2000, 2010, 2020, 2030, 3000, 3010, 3020, 4000, 4010, 4020, 5000, 5050, 6000, 6050, 7000),
    *(7050, 8000, 9000, 9010, 9020, 10000, 10010, 10020),
    *(11000 + minor * 10 for minor in range(9)),
    *(12000 + minor * 10 for minor in range(10)),
    *(13000 + minor * 10 for minor in range(6)),
    *(-1, 0, 12021, 99990),
)
# Legacy and per-thread default stream, in two ways each; bits without a meaning.
FLAGS = (0, 1, 2, 3, 4, 1 << 63)
# Not exported, foreign, with a suffix, or cudart's first question: an empty name at version 0.
ODD_NAMES = ("", "cu", "cuNothing", "cudbgApiInit", "curl_easy_init", "nvmlInit", "dlsym", "malloc")


@pytest.fixture(
    scope="module",
    params=[
        series if series == "535" else pytest.param(series, marks=pytest.mark.long)
        for series in driver_files.SERIES
    ],
)
def files(request: pytest.FixtureRequest) -> pathlib.Path:
    return driver_files.libraries(request.param)


def exported(library: pathlib.Path) -> list[str]:
    """Names of the functions and data that a library exports."""
    listed = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True)
    return sorted(line.split()[2] for line in listed.splitlines() if re.search(" [TBDR] ", line))


def base_names(names: Iterable[str]) -> list[str]:
    """Names as cuGetProcAddress knows them: without version and stream suffix."""
    return sorted({re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name) for name in names})


def expected(answer: list[object], gated: frozenset[str]) -> list[object]:
    """Return the program's expected answers with us, from its answers without."""

    def route(word: object) -> object:
        library, _, symbol = str(word).partition(":")
        ours = library in (*driver_files.SONAMES, "libc.so.6") and symbol in gated
        return f"libvcuda.so:{symbol}" if ours else word

    return [route(word) for word in answer]


Answers = list[list[object]]


class Asker:
    """Runs a probe on a driver's files, with the hook preloaded or without."""

    def __init__(self, files: pathlib.Path, hook: pathlib.Path, folder: pathlib.Path) -> None:
        self._files, self._hook, self._folder = files, hook, folder

    def ask(
        self, probe: str, *arguments: str, hooked: bool, question: object
    ) -> list[list[object]]:
        environment = os.environ | {
            "LD_LIBRARY_PATH": str(self._files),
            "LD_PRELOAD": str(self._hook) if hooked else "",
        }
        result = subprocess.run(
            [sys.executable, str(PROBES / probe), *arguments],
            input=json.dumps(question), capture_output=True, text=True, check=False,
            cwd=self._folder, env=environment, timeout=300,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def asker(files: pathlib.Path, build: pathlib.Path, tmp_path: pathlib.Path) -> Asker:
    return Asker(files, build / "test" / "libvcuda.so", tmp_path)


def compare(bare: Answers, hooked: Answers, gated: frozenset[str]) -> None:
    assert len(hooked) == len(bare)
    differences = [
        f"{wanted} became {got}"
        for plain, got in zip(bare, hooked, strict=True)
        if got != (wanted := expected(plain, gated))
    ]
    assert not differences, f"{len(differences)} of {len(bare)}:\n" + "\n".join(differences[:20])


@pytest.mark.long
def test_every_name_version_and_flag_gives_the_gate_or_the_drivers_answer(
    files: pathlib.Path, asker: Asker, gated: frozenset[str]
) -> None:
    names = exported(files / "libcuda.so.1")
    asked = [*base_names(names), *ODD_NAMES, *(name for name in names if name in gated)]
    functions = [
        [name, version, flags] for name in asked for version in VERSIONS for flags in FLAGS
    ]
    question = {"functions": functions, "names": []}
    bare = asker.ask("resolving.py", "libcuda.so.1", hooked=False, question=question)
    hooked = asker.ask("resolving.py", "libcuda.so.1", hooked=True, question=question)
    compare(bare, hooked, gated)
    found = {str(answer[-1]).partition(":")[2] for answer in hooked if "libvcuda" in str(answer)}
    reachable = {str(answer[-1]).partition(":")[2] for answer in bare}
    assert found == gated & reachable  # the comparison isn't between two empty lists
    assert len(found) > 20


@pytest.mark.parametrize("soname", driver_files.SONAMES)
def test_every_symbol_of_the_loader_gives_the_gate_or_the_drivers_own(
    files: pathlib.Path, asker: Asker, gated: frozenset[str], soname: str
) -> None:
    names = exported(files / soname)
    question = {"functions": [], "names": [*names, *ODD_NAMES, "dlvsym"]}
    bare = asker.ask("resolving.py", soname, hooked=False, question=question)
    hooked = asker.ask("resolving.py", soname, hooked=True, question=question)
    compare(bare, hooked, gated)
    found = {str(answer[4]).partition(":")[2] for answer in hooked if "libvcuda" in str(answer[4])}
    assert found == (gated & set(names)) | {"dlsym", "dlvsym"}


@pytest.mark.parametrize(
    ("soname", "init"), [("libcuda.so.1", "cuInit"), ("libnvidia-ml.so.1", "nvmlInit_v2")]
)
def test_senseless_calls_end_as_they_do_without_the_hook(
    asker: Asker, gated: frozenset[str], soname: str, init: str
) -> None:
    question = sorted(gated - {"dlsym", "dlvsym"})
    bare = asker.ask("calling.py", soname, init, hooked=False, question=question)
    hooked = asker.ask("calling.py", soname, init, hooked=True, question=question)
    assert len(bare) == len(hooked) > 18  # two stages, three patterns, three functions and more
    differences = [
        f"{plain} became {got}"
        for plain, got in zip(bare, hooked, strict=True)
        # Where the driver itself dies, our answer doesn't matter.
        if got != plain and not isinstance(plain[-1], str)
    ]
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("binding", ["now", "lazy"])
def test_a_program_linked_with_the_driver_meets_the_gates(
    build: pathlib.Path, tmp_path: pathlib.Path, binding: str
) -> None:
    files = driver_files.libraries("535")
    flags = (str(files / "libcuda.so.1"), f"-Wl,-z,{binding}", "-Wl,--allow-shlib-undefined")
    program = compiled(tmp_path, "where.c", "where", *flags)
    environment = {
        "LD_LIBRARY_PATH": str(files),
        "LD_PRELOAD": str(build / "test" / "libvcuda.so"),
    }
    result = subprocess.run(
        [program], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    # The driver's file has its version in its name; dladdr follows the name that was opened.
    said = [line.split() for line in result.stdout.splitlines()]
    assert {where for name, where in said if name == "cuInit"} == {"libcuda.so.1"}
    assert {where for name, where in said if name == "cuMemAlloc_v2"} == {"libvcuda.so"}
    assert result.returncode == 0
