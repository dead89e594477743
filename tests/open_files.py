"""What this process has open, of one folder: threads of other tests open and close files, too."""

import os
import pathlib


def below(folder: pathlib.Path) -> list[str]:
    """Return the open files of a folder, removed ones too (`(deleted)`)."""
    found = []
    for each in pathlib.Path("/proc/self/fd").iterdir():
        try:
            found.append(os.readlink(each))
        except FileNotFoundError:
            continue  # closed meanwhile
    return [path for path in found if path.startswith(f"{folder}/")]
