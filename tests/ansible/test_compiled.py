"""What `compiled/sitecustomize.py` does to Python's reading of a zip."""

import os
import pathlib
import subprocess
import sys
import zipfile

from tests.ansible import layout


def _said(folder: pathlib.Path) -> str:
    """Import a module of a zip, as Ansible's programs do; return what it says."""
    program = f"import sys; sys.path.insert(0, {str(folder / 'm.zip')!r}); import said"
    environment = {
        **os.environ,
        "PYTHONPATH": str(layout.ROOT / "tests/ansible/compiled"),
        "GPUSTACK_COMPILED": str(folder / "kept"),
    }
    return subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)


def _zip(folder: pathlib.Path, text: str) -> None:
    with zipfile.ZipFile(folder / "m.zip", "w") as archive:
        archive.writestr("said.py", f"print({text!r})")


def test_another_source_is_compiled_and_the_same_one_kept(tmp_path: pathlib.Path) -> None:
    for text in ("one", "two", "one"):
        _zip(tmp_path, text)
        assert _said(tmp_path) == f"{text}\n"
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_what_is_kept_is_what_runs(tmp_path: pathlib.Path) -> None:
    _zip(tmp_path, "one")
    _said(tmp_path)
    (first,) = (tmp_path / "kept").iterdir()
    _zip(tmp_path, "two")
    _said(tmp_path)
    (second,) = set((tmp_path / "kept").iterdir()) - {first}
    first.write_bytes(second.read_bytes())
    _zip(tmp_path, "one")
    assert _said(tmp_path) == "two\n"


def test_a_torn_file_is_compiled_again(tmp_path: pathlib.Path) -> None:
    _zip(tmp_path, "one")
    _said(tmp_path)
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:9])
    assert _said(tmp_path) == "one\n"
