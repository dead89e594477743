"""The driver volume takes the files of each layout, and is built once."""

import os
import pathlib
import shutil

import pytest

from gpustack.agent.node import driver_volume
from gpustack.agent.node.driver_files import DriverFilesError, Library, find_libraries

VERSION = "535.261.03"


def _plain(root: pathlib.Path, *stems: str, version: str = VERSION) -> str:
    """Lay libraries out as the simulated driver does; return the linker's cache."""
    lines = []
    for stem in stems:
        file = root / f"{stem}.so.{version}"
        file.write_text(f"{stem} {version}")
        (root / f"{stem}.so.1").symlink_to(file.name)
        lines.append(f"\t{stem}.so.1 (libc6,x86-64) => {root}/{stem}.so.1")
    return "\n".join(["3 libs found in cache", *lines])


def _debian(root: pathlib.Path) -> str:
    """Lay libraries out as Debian does: by way of alternatives to a folder of the driver."""
    current, alternatives = root / "nvidia" / "current", root / "alternatives"
    current.mkdir(parents=True)
    alternatives.mkdir()
    lines = []
    for stem in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
        file = current / f"{stem}.so.{VERSION}"
        file.write_text(stem)
        (current / f"{stem}.so.1").symlink_to(file.name)
        (alternatives / f"{stem}.so.1").symlink_to(current / f"{stem}.so.1")
        (root / f"{stem}.so.1").symlink_to(alternatives / f"{stem}.so.1")
        lines.append(f"\t{stem}.so.1 (libc6,x86-64) => {root}/{stem}.so.1")
    return "\n".join(lines)


def _files(libraries: tuple[Library, ...]) -> dict[str, str]:
    return {library.soname: library.file.name for library in libraries}


def test_libraries_are_found_in_the_plain_layout(tmp_path: pathlib.Path) -> None:
    cache = _plain(tmp_path, "libcuda", "libnvidia-ml", "libc")
    assert _files(find_libraries(VERSION, cache)) == {
        "libcuda.so.1": f"libcuda.so.{VERSION}",
        "libnvidia-ml.so.1": f"libnvidia-ml.so.{VERSION}",
    }


def test_libraries_are_found_behind_debians_alternatives(tmp_path: pathlib.Path) -> None:
    found = _files(find_libraries(VERSION, _debian(tmp_path)))
    assert found["libnvidia-ptxjitcompiler.so.1"] == f"libnvidia-ptxjitcompiler.so.{VERSION}"
    assert len(found) == 3


def test_another_drivers_libraries_and_32_bit_ones_are_left_out(tmp_path: pathlib.Path) -> None:
    cache = _plain(tmp_path, "libcuda", "libnvidia-ml")
    old = tmp_path / "old"
    old.mkdir()
    cache += "\n" + _plain(old, "libnvcuvid", version="470.57.02").replace("3 libs found", "")
    narrow = tmp_path / "i386"
    narrow.mkdir()
    cache += "\n" + _plain(narrow, "libnvidia-encode").replace("libc6,x86-64", "libc6")
    assert set(_files(find_libraries(VERSION, cache))) == {"libcuda.so.1", "libnvidia-ml.so.1"}


def test_a_driver_without_libcuda_of_its_version_is_an_error(tmp_path: pathlib.Path) -> None:
    cache = _plain(tmp_path, "libcuda", "libnvidia-ml", version="470.57.02")
    with pytest.raises(DriverFilesError, match=r"libcuda\.so\.1, libnvidia-ml\.so\.1 of driver"):
        find_libraries(VERSION, cache)


def test_the_volume_holds_files_sonames_plain_names_and_programs(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib").mkdir()
    libraries = find_libraries(VERSION, _plain(tmp_path / "lib", "libcuda", "libnvidia-ml"))
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    volume = driver_volume.build(
        root=tmp_path / "driver", version=VERSION, libraries=libraries, binaries=[program]
    )
    assert volume == tmp_path / "driver" / VERSION
    assert {entry.name for entry in (volume / "lib64").iterdir()} == {
        name
        for stem in ("libcuda.so", "libnvidia-ml.so")
        for name in (f"{stem}.{VERSION}", f"{stem}.1", stem)
    }
    assert os.readlink(volume / "lib64" / "libcuda.so.1") == f"libcuda.so.{VERSION}"
    assert os.access(volume / "bin" / "nvidia-smi", os.X_OK)
    assert volume.stat().st_mode & 0o777 == 0o755


def test_a_volume_that_is_there_is_never_touched_again(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib").mkdir()
    libraries = find_libraries(VERSION, _plain(tmp_path / "lib", "libcuda", "libnvidia-ml"))
    first = driver_volume.build(
        root=tmp_path / "driver", version=VERSION, libraries=libraries, binaries=[]
    )
    inode = (first / "lib64" / f"libcuda.so.{VERSION}").stat().st_ino
    again = driver_volume.build(
        root=tmp_path / "driver", version=VERSION, libraries=(), binaries=[]
    )
    assert again == first
    assert (again / "lib64" / f"libcuda.so.{VERSION}").stat().st_ino == inode


def test_files_of_a_killed_builder_are_removed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lib").mkdir()
    left = tmp_path / "driver" / f".{VERSION}.abc"
    left.mkdir(parents=True)
    libraries = find_libraries(VERSION, _plain(tmp_path / "lib", "libcuda", "libnvidia-ml"))
    driver_volume.build(root=tmp_path / "driver", version=VERSION, libraries=libraries, binaries=[])
    assert [entry.name for entry in (tmp_path / "driver").iterdir()] == [VERSION]


@pytest.mark.parametrize("content", [b"", bytes(100_000)], ids=["empty", "zeroed"])
def test_a_volume_that_a_power_cut_emptied_is_built_again(
    tmp_path: pathlib.Path, content: bytes
) -> None:
    (tmp_path / "lib").mkdir()
    libraries = find_libraries(VERSION, _plain(tmp_path / "lib", "libcuda", "libnvidia-ml"))
    root = tmp_path / "driver"
    volume = driver_volume.build(root=root, version=VERSION, libraries=libraries, binaries=[])
    for _ in range(2):
        file = volume / "lib64" / f"libcuda.so.{VERSION}"
        file.unlink()
        file.write_bytes(content)
        with file.open("rb") as mapped:
            driver_volume.build(root=root, version=VERSION, libraries=libraries, binaries=[])
            assert mapped.read() == content, "a process that has it open goes on with it"
        assert file.read_text() == f"libcuda {VERSION}"
    (aside,) = root.glob(f".{VERSION}.damaged-*")
    assert len(list(root.iterdir())) == 2
    assert aside.is_dir()


@pytest.mark.parametrize("lost", ["bin", "lib64", f"lib64/libcuda.so.{VERSION}", ""])
def test_a_volume_that_lost_a_file_or_folder_is_built_again(
    tmp_path: pathlib.Path, lost: str
) -> None:
    (tmp_path / "lib").mkdir()
    libraries = find_libraries(VERSION, _plain(tmp_path / "lib", "libcuda", "libnvidia-ml"))
    root = tmp_path / "driver"
    volume = driver_volume.build(root=root, version=VERSION, libraries=libraries, binaries=[])
    for _ in range(2):
        shutil.move(volume / lost, tmp_path / "lost")
        if not lost:
            volume.touch()  # a file in the folder's place
        driver_volume.build(root=root, version=VERSION, libraries=libraries, binaries=[])
        assert (volume / "lib64" / "libcuda.so.1").read_text() == f"libcuda {VERSION}"
        assert (volume / "bin").is_dir()
        shutil.rmtree(tmp_path / "lost", ignore_errors=True)


def test_a_volume_is_built_beside_files_that_can_not_be_removed(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "lib").mkdir()
    left = tmp_path / "driver" / f".{VERSION}.abc"
    left.parent.mkdir()
    left.symlink_to(tmp_path)  # removing a folder fails on it
    libraries = find_libraries(VERSION, _plain(tmp_path / "lib", "libcuda", "libnvidia-ml"))
    volume = driver_volume.build(
        root=tmp_path / "driver", version=VERSION, libraries=libraries, binaries=[]
    )
    assert (volume / "lib64" / "libcuda.so.1").exists()
    assert "an earlier driver volume is left" in caplog.text
