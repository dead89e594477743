"""Asks a driver for every name in every way, and prints each answer: resolving.py < QUESTIONS.

An address is printed as the library and the symbol that it is the start of, so that two processes
can be compared. The questions are JSON: {"functions": [[name, version, flags], …], "names": […]}.
"""

import ctypes
import json
import os
import pathlib
import sys
from collections.abc import Iterator

RTLD_DEFAULT = ctypes.c_void_p(0)
UNTOUCHED = 0x5EA1ED
VERSIONS = (b"GLIBC_2.2.5", b"libcuda.so.1")


class DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class Namer:
    """Names the library and the symbol of an address."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._libc.dladdr.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        self._known: dict[int | None, str] = {None: "NULL", 0: "NULL", UNTOUCHED: "untouched"}

    def name(self, address: int | None) -> str:
        if address not in self._known:
            assert address is not None
            info = DlInfo()
            assert self._libc.dladdr(address, ctypes.byref(info)), hex(address)
            offset = address - (info.address or 0)
            symbol = (info.symbol or b"?").decode() + (f"+{offset:#x}" if offset else "")
            self._known[address] = f"{pathlib.Path(info.file.decode()).name}:{symbol}"
        return self._known[address]


def by_driver(cuda: ctypes.CDLL, namer: Namer, questions: list[list[object]]) -> Iterator[object]:
    """CuGetProcAddress in both forms, outputs untouched where the driver leaves them so."""
    found, status = ctypes.c_void_p(), ctypes.c_int()
    pointer, told = ctypes.byref(found), ctypes.byref(status)
    for entry in ("cuGetProcAddress", "cuGetProcAddress_v2"):
        if not hasattr(cuda, entry):
            continue
        ask = getattr(cuda, entry)
        ask.argtypes = (
            ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p
        )[: 5 if entry.endswith("_v2") else 4]  # fmt: skip
        more = [told] if entry.endswith("_v2") else []
        for name, version, flags in questions:
            found.value, status.value = UNTOUCHED, UNTOUCHED
            code = ask(str(name).encode(), pointer, version, flags, *more)
            yield [entry, name, version, flags, code, status.value, namer.name(found.value)]


def by_loader(cuda: ctypes.CDLL, namer: Namer, names: list[str]) -> Iterator[object]:
    """Dlsym and dlvsym: by handle, in the program's scope, and the text of dlerror then."""
    libc = ctypes.CDLL(None)
    libc.dlsym.restype = libc.dlvsym.restype = libc.dlopen.restype = ctypes.c_void_p
    libc.dlsym.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    libc.dlvsym.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    libc.dlopen.argtypes = (ctypes.c_char_p, ctypes.c_int)
    libc.dlerror.restype = ctypes.c_char_p
    program = libc.dlopen(None, os.RTLD_NOW)
    handles = {
        "handle": cuda._handle,
        "default": RTLD_DEFAULT,
        "program": program,
    }
    for scope in ("local", "global"):
        if scope == "global":
            libc.dlopen(cuda._name.encode(), os.RTLD_NOW | os.RTLD_GLOBAL)
        for way, handle in handles.items():
            for name in names:
                libc.dlerror()
                answer = namer.name(libc.dlsym(handle, name.encode()))
                yield [scope, "dlsym", way, name, answer, _said(libc)]
                for version in VERSIONS:
                    answer = namer.name(libc.dlvsym(handle, name.encode(), version))
                    yield [scope, "dlvsym", way, name, version.decode(), answer, _said(libc)]


def _said(libc: ctypes.CDLL) -> bool:
    return libc.dlerror() is not None


def main() -> None:
    questions = json.load(sys.stdin)
    cuda = ctypes.CDLL(sys.argv[1])
    namer = Namer()
    if sys.argv[1].startswith("libcuda"):
        for answer in by_driver(cuda, namer, questions["functions"]):
            print(json.dumps(answer))
    for answer in by_loader(cuda, namer, questions["names"]):
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
