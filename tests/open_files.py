"""What this process has open, of one folder: threads of other tests open and close files, too."""

import contextlib
import os
import pathlib
import resource
from collections.abc import Iterator


def below(folder: pathlib.Path) -> list[str]:
    """Return the open files of a folder, removed ones too (`(deleted)`)."""
    found = []
    for each in pathlib.Path("/proc/self/fd").iterdir():
        try:
            found.append(os.readlink(each))
        except FileNotFoundError:
            continue  # closed meanwhile
    return [path for path in found if path.startswith(f"{folder}/")]


@contextlib.contextmanager
def allowed(count: int) -> Iterator[None]:
    """Let this process have so many files open, for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
