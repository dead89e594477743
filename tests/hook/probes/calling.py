"""Calls every function of a list with senseless arguments, and prints the outcomes.

calling.py LIBRARY INIT < NAMES, a JSON list. Each is called before INIT and after it, with nothing,
with pointers to zeroes, and with small numbers. A call that ends its process ends a child of this
one.
"""

import ctypes
import json
import os
import signal
import sys

ERRNO = 33
# As many as any function of the driver takes.
ARGUMENTS = 13
BUFFER_BYTES = 1 << 12


def patterns() -> dict[str, list[int]]:
    buffers = [ctypes.create_string_buffer(BUFFER_BYTES) for _ in range(ARGUMENTS)]
    kept.extend(buffers)
    return {
        "nothing": [0] * ARGUMENTS,
        "zeroes": [ctypes.addressof(buffer) for buffer in buffers],
        "numbers": list(range(1, ARGUMENTS + 1)),
    }


kept: list[ctypes.Array[ctypes.c_char]] = []


def call(library: ctypes.CDLL, name: str, arguments: list[int]) -> list[object]:
    function = getattr(library, name)
    for buffer in kept:
        ctypes.memset(buffer, 0, BUFFER_BYTES)
    ctypes.set_errno(ERRNO)
    code = function(*(ctypes.c_uint64(each) for each in arguments))
    touched = any(bytes(buffer) != bytes(BUFFER_BYTES) for buffer in kept)
    return [code, ctypes.get_errno() == ERRNO, touched]


def attempt(library: ctypes.CDLL, calls: list[tuple[str, list[int]]]) -> list[object]:
    """Make the calls in children: the next one goes on where a signal ended the one before."""
    answers: list[object] = []
    while len(answers) < len(calls):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                for name, arguments in calls[len(answers) :]:
                    print(json.dumps(call(library, name, arguments)), file=out, flush=True)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as lines:
            answers += [json.loads(line) for line in lines]
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            answers.append(signal.Signals(os.WTERMSIG(status)).name)
        elif len(answers) < len(calls):
            answers.append("ended the process")
    return answers


def main() -> None:
    library = ctypes.CDLL(sys.argv[1], use_errno=True)
    names = [name for name in json.load(sys.stdin) if hasattr(library, name)]
    labelled = [(name, label, each) for label, each in patterns().items() for name in names]
    for stage in ("before", "after"):
        if stage == "after":
            print(json.dumps([sys.argv[2], getattr(library, sys.argv[2])(0)]))
        made = attempt(library, [(name, each) for name, _, each in labelled])
        for (name, label, _), answer in zip(labelled, made, strict=True):
            print(json.dumps([stage, name, label, answer]))


if __name__ == "__main__":
    main()
