"""The layout of the sources, so that a reader finds a thing where its name says."""

import ast
import collections
import functools
import pathlib
import re
import subprocess
from collections.abc import Iterator

import grimp
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_LINES = 300
MOST_SOURCES = 15
LONGEST_CHAIN = 8
LONGEST_NAME = 69
MOST_PARTS = 6
PLAIN_VALUES = {"bool", "bytes", "float", "int", "str", "None", "Path", "pathlib.Path"}
MODEL = "gpustack.model"
PRODUCT = ("gpustack", "extender")


@functools.cache
def sources(*suffixes: str) -> tuple[pathlib.Path, ...]:
    """Return every file of such names (Python's) in the repository that no program generated."""
    patterns = [f"*{each}" for each in suffixes or (".py",)]
    listed = subprocess.check_output(["git", "ls-files", *patterns], cwd=ROOT, text=True)
    paths = (ROOT / line for line in listed.splitlines())
    return tuple(path for path in paths if path.exists() and not path.stem.endswith("_pb2"))


def product() -> Iterator[pathlib.Path]:
    return (path for path in sources() if path.relative_to(ROOT).parts[0] in PRODUCT)


def test_no_python_file_is_long() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in sources()}
    assert {str(path): count for path, count in lengths.items() if count > MOST_LINES} == {}


def test_no_folder_has_many_sources() -> None:
    """A header or a table counts with the source that it belongs to."""
    found = sources(".py", ".c", ".S", ".sh")
    counts = collections.Counter(path.parent for path in found if path.stem != "__init__")
    assert {str(each): count for each, count in counts.items() if count > MOST_SOURCES} == {}


def test_the_name_of_a_test_has_fewer_than_70_characters() -> None:
    names = [
        f"{path.relative_to(ROOT)}::{name}"
        for path in sources()
        if path.match("test_*.py")
        for name in re.findall(r"^def (\w+)", path.read_text("utf-8"), re.MULTILINE)
        if len(name) > LONGEST_NAME
    ]
    assert names == []


def test_no_two_public_classes_have_one_name() -> None:
    homes: dict[str, list[str]] = collections.defaultdict(list)
    for path in product():
        for each in ast.parse(path.read_text("utf-8")).body:
            if isinstance(each, ast.ClassDef) and not each.name.startswith("_"):
                homes[each.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def parts(each: ast.ClassDef, active: frozenset[str]) -> list[str]:
    """Return the names of the parts that a class is handed; `active` as in the test below."""
    init = next(
        (e for e in each.body if isinstance(e, ast.FunctionDef) and e.name == "__init__"), None
    )
    if init is not None:
        given = [*init.args.posonlyargs, *init.args.args, *init.args.kwonlyargs]
        types = {one.arg: one.annotation for one in given if one.annotation is not None}
        return [
            name
            for name, type_ in types.items()
            if not PLAIN_VALUES.issuperset(ast.unparse(type_).split(" | "))
        ]
    fields = [one for one in each.body if isinstance(one, ast.AnnAssign)]
    return [
        ast.unparse(field.target)
        for field in fields
        if active.intersection(re.findall(r"\w+", ast.unparse(field.annotation)))
    ]


def test_no_class_is_handed_more_than_six_parts() -> None:
    """A parameter of `__init__` is a part, unless its type is a number, a text, a flag or a path.

    The fields of a class without `__init__` are values. A field is a part where its type names a
    `Callable`, or a class of the product that has an `__init__`.
    """
    classes = [
        (path, each)
        for path in product()
        for each in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(each, ast.ClassDef)
    ]
    active = frozenset(
        each.name
        for _, each in classes
        if any(isinstance(one, ast.FunctionDef) and one.name == "__init__" for one in each.body)
    ) | {"Callable"}
    found = {f"{path.relative_to(ROOT)}:{each.name}": parts(each, active) for path, each in classes}
    assert {name: each for name, each in found.items() if len(each) > MOST_PARTS} == {}


def test_chains_of_imports_in_the_model_are_short() -> None:
    graph = grimp.build_graph("gpustack", cache_dir=None)

    @functools.cache
    def chain(module: str) -> tuple[str, ...]:
        imported = graph.find_modules_directly_imported_by(module)
        below = (chain(each) for each in imported if each.startswith(MODEL))
        return (module, *max(below, key=len, default=()))

    longest = max((chain(each) for each in graph.modules if each.startswith(MODEL)), key=len)
    assert len(longest) <= LONGEST_CHAIN, " -> ".join(longest)


@pytest.mark.parametrize("package", [f"{each}/__init__.py" for each in PRODUCT])
def test_no_module_exports_names_of_another(package: str) -> None:
    """A name is imported from the module that defines it; only a package speaks for its modules."""
    folder = (ROOT / package).parent
    again = [
        str(path.relative_to(ROOT))
        for path in sorted(folder.rglob("*.py"))
        if path.stem != "__init__"
        and any(
            isinstance(each, ast.Assign)
            and any(isinstance(name, ast.Name) and name.id == "__all__" for name in each.targets)
            for each in ast.parse(path.read_text("utf-8")).body
        )
    ]
    assert again == []
