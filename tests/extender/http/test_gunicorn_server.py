"""One file uses gunicorn, and lists its names that no document promises."""

import ast
import inspect
import re
import time
from pathlib import Path
from types import SimpleNamespace

import gunicorn.arbiter
import gunicorn.glogging
import gunicorn.http.wsgi
import gunicorn.workers.base

import extender
from extender.http import gunicorn_server, interface
from extender.http.request_buffer import RequestBuffer

FILE = Path(inspect.getfile(gunicorn_server))
# names in gunicorn's documents, under "Custom Application"
PROMISED = {
    "BaseApplication",
    "app",
    "base",
    "cfg",
    "load",
    "load_config",
    "set",
    "settings",
    "workers",
}


def test_one_file_of_the_extender_imports_gunicorn() -> None:
    (package,) = extender.__path__
    importing = re.compile(r"^\s*(?:import|from) gunicorn\b", re.MULTILINE)
    found = [each for each in Path(package).rglob("*.py") if importing.search(each.read_text())]
    assert found == [FILE]


def test_no_other_file_of_the_extender_uses_a_key_of_gunicorn() -> None:
    (package,) = extender.__path__
    using = re.compile(r"[\"']gunicorn\.")
    assert [each for each in Path(package).rglob("*.py") if using.search(each.read_text())] == []


def listed() -> set[str]:
    """The names in the table of the file's docstring; `_ttin` stands for `handle_ttin`."""
    words = set(re.findall(r"\w+", gunicorn_server.__doc__ or ""))
    return words | {f"handle{word}" for word in words if word.startswith("_")}


def test_every_name_of_gunicorn_is_listed() -> None:
    used: set[str] = set()
    ours = set(vars(interface.Application)) | {"application", "contexts"}
    for node in ast.walk(ast.parse(FILE.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("gunicorn."):
            used |= set(ast.unparse(node).split(".")[1:])
        if isinstance(node, ast.ClassDef) and "gunicorn." in ast.unparse(node):
            methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            methods |= {
                ast.unparse(each.targets[0]) for each in node.body if isinstance(each, ast.Assign)
            }
            used |= methods | {
                each.attr
                for each in ast.walk(node)
                if isinstance(each, ast.Attribute)
                and ast.unparse(each.value) in ("self", "response", "request")
            }
    used = {name for name in used if not name.startswith("_")}
    assert used - ours - PROMISED <= listed() | {"workers"}
    assert {"RequestParser", "create", "handle_error", "handle_usr2", "should_close"} <= used


def test_the_listed_names_exist() -> None:
    for owner, names in (
        (gunicorn.arbiter.Arbiter, ["run", "handle_hup", "handle_ttin", "handle_usr2"]),
        (gunicorn.workers.base.Worker, ["run", "handle_exit", "notify", "handle_error"]),
        (
            gunicorn.http.wsgi.Response,
            ["start_response", "write", "close", "force_close", "should_close"],
        ),
        (gunicorn.glogging.Logger, ["setup", "warning"]),
    ):
        for name in names:
            assert callable(getattr(owner, name))
    parameters = [*inspect.signature(gunicorn.workers.base.Worker.__init__).parameters]
    assert parameters[1:] == ["age", "ppid", "sockets", "app", "timeout", "cfg", "log"]


def test_blanks_in_connection_cost_no_more_than_other_text() -> None:
    """They are compared in one step of the interpreter, for which the scheduler's calls wait."""
    value = "keep-alive" + " " * 100_000 + "x,\t Close \t, x"
    request = SimpleNamespace(headers=[("CONNECTION", value)], version=(1, 1))
    began = time.thread_time()
    assert gunicorn_server.is_last(request, RequestBuffer(lambda _head: 0))
    assert time.thread_time() - began < 1  # nearly nothing; 9 s by a search at each blank
