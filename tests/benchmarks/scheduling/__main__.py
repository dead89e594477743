"""Print the extender's figures only: ``python -m tests.benchmarks.scheduling [NODES ...]``."""

import sys

from tests.benchmarks.scheduling import section

if __name__ == "__main__":
    print(section.section(tuple(map(int, sys.argv[1:])) or section.SIZES))
