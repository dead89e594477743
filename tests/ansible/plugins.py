"""The roles' filter plugins and modules, for Python."""

import importlib.util
import pathlib
import types

from tests.ansible import layout


def load(path: str) -> types.ModuleType:
    """Load one as Ansible does: by its path, which is relative to the repository."""
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, layout.ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
