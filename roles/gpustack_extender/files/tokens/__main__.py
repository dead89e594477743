"""Renews the tokens with which the daemons of this host ask the API server.

    python FOLDER SETTINGS [--check]

It asks for the next token with the present one, once a third of its time is used. Its status is 1
where a token can't be renewed, or with --check, which only looks, is near its end.
"""

import argparse
import json
import pathlib
import sys

from renewal import Tokens

_CURE = "site.yml --tags gpustack_extender gives this host other tokens"


def main() -> int:
    """Run as a program; returns its status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="look only")
    options = parser.parse_args()
    try:
        tokens = Tokens(json.loads(options.settings.read_text("utf-8")))
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"tokens as {options.settings} says: {error}\n")
        return 1
    problems = tokens.look() if options.check else tokens.renew()
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    if problems:
        sys.stderr.write(f"{_CURE}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
