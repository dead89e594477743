"""Runs one step for the settings in a file: the timer's program, and Ansible's.

    python FOLDER SETTINGS [--step renew|make|trust|finish] [--check]

It prints the names of the files that it made, one a line. Its status is 2 for a fault, and 1 where
a step has succeeded and a person has to do something soon, which it says.
"""

import argparse
import json
import pathlib
import sys

from openssl import PkiError
from pki import Pki


def main() -> int:
    """Run as a program; returns its status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=pathlib.Path)
    parser.add_argument("--step", choices=["renew", "make", "trust", "finish"], default="renew")
    parser.add_argument("--check", action="store_true", help="look only")
    options = parser.parse_args()
    try:
        pki = Pki(json.loads(options.settings.read_text("utf-8")), check=options.check)
        with pki.locked():
            sys.stdout.writelines(f"{name}\n" for name in getattr(pki, options.step)())
            warning = "" if options.check else pki.warning()
    except (OSError, ValueError, KeyError, PkiError) as error:
        sys.stderr.write(f"certificates as {options.settings} says: {error}\n")
        return 2
    if warning:
        sys.stderr.write(f"{warning}\n")
    return 1 if warning else 0


if __name__ == "__main__":
    sys.exit(main())
