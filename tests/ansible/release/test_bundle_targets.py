"""The bundle's wheels are whole for each Python and architecture, as far as this machine can tell.

pip chooses among them by the target's tags. It judges the conditions of dependencies
(`python_version < "3.13"`) by the Python that runs it, so these are followed here, in the metadata
of each wheel (https://packaging.python.org/specifications/).
"""

import email.message
import email.parser
import pathlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import gpustack
from tests.ansible import plugins

pytestmark = pytest.mark.long

BUNDLES = plugins.load("playbooks/scripts/bundle.py")
TARGETS = [(arch, python) for arch in BUNDLES.ARCHITECTURES for python in BUNDLES.PYTHONS]
# What hosts get of pyproject.toml, as `make lock` says.
EXTRAS = ("agent", "extender", "cli")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Build our wheel."""
    wheel: pathlib.Path = BUNDLES.build_wheel(tmp_path_factory.mktemp("ours"))
    return wheel


def metadata(wheel: pathlib.Path) -> email.message.Message:
    """Return a wheel's own description."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = (
            each for each in files.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", each)
        )
        return email.parser.BytesParser().parsebytes(files.read(name))


def lacking(wheels: list[pathlib.Path], architecture: str, python: str) -> Iterator[str]:
    """Yield what a set of wheels lacks on hosts of a kind, as `PACKAGE: WHAT`."""
    described = {canonicalize_name(each["Name"]): each for each in map(metadata, wheels)}
    host = {
        "implementation_name": "cpython", "os_name": "posix", "platform_machine": architecture,
        "platform_python_implementation": "CPython", "platform_system": "Linux",
        "python_full_version": f"{python}.0", "python_version": python, "sys_platform": "linux",
    }  # fmt: skip
    for name, each in described.items():
        if not SpecifierSet(each["Requires-Python"] or "").contains(f"{python}.0"):
            yield f"{name}: Python {each['Requires-Python']}"
    asked, waiting = set(), [(canonicalize_name("gpustack-vcuda"), extra) for extra in EXTRAS]
    while waiting:
        package, extra = waiting.pop()
        asked.add((package, extra))
        for text in described[package].get_all("Requires-Dist") or ():
            wanted = Requirement(text)
            if wanted.marker and not wanted.marker.evaluate({**host, "extra": extra}):
                continue
            found = described.get(canonicalize_name(wanted.name))
            if found is None or not wanted.specifier.contains(found["Version"], prereleases=True):
                yield f"{package}: {text}"
            else:
                needs = {(canonicalize_name(wanted.name), each) for each in {"", *wanted.extras}}
                waiting += needs - asked


def wheels_of_one() -> list[pathlib.Path]:
    return list(BUNDLES.download_wheels("x86_64", "3.11").glob("*.whl"))


@pytest.mark.parametrize("absent", ["msgspec", "pydantic_core"])
def test_a_wheel_that_is_absent_is_found(ours: pathlib.Path, absent: str) -> None:
    wheels = [ours, *wheels_of_one()]
    rest = [path for path in wheels if not path.name.startswith(f"{absent}-")]
    assert len(rest) == len(wheels) - 1
    found = list(lacking(rest, "x86_64", "3.11"))
    assert any(re.search(rf": {absent.replace('_', '-')}\b", each) for each in found), found


def test_a_wheel_for_another_python_is_found(ours: pathlib.Path) -> None:
    assert "gpustack-vcuda: Python >=3.11" in lacking([ours, *wheels_of_one()], "x86_64", "3.10")


@pytest.mark.parametrize(("architecture", "python"), TARGETS)
def test_every_kind_of_host_finds_all_wheels_in_the_bundle(
    ours: pathlib.Path, tmp_path: pathlib.Path, architecture: str, python: str
) -> None:
    folder = BUNDLES.download_wheels(architecture, python)
    assert list(lacking([ours, *folder.glob("*.whl")], architecture, python)) == []
    requirements = tmp_path / "requirements.txt"
    sum_ = BUNDLES.sha256(ours)
    requirements.write_text(
        f"{BUNDLES.LOCK.read_text()}gpustack-vcuda=={gpustack.__version__} --hash=sha256:{sum_}\n"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--isolated", "install", "--dry-run", "--no-index"),
            *("--require-hashes", "--only-binary=:all:", f"--target={tmp_path / 'target'}"),
            *(f"--python-version={python}", f"--requirement={requirements}"),
            *(f"--platform={each}_{architecture}" for each in BUNDLES.MANYLINUX),
            *(f"--find-links={ours.parent}", f"--find-links={folder}"),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (told,) = re.findall(r"^Would install (.*)$", done.stdout, re.MULTILINE)
    assert len(told.split()) == 1 + len(list(folder.glob("*.whl")))
