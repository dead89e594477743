"""A process of its own that asks NVML: a driver that hangs, or ends its caller, harms no other.

It prints one line of JSON: the driver's version and the cards, or why there are none.
"""

import json

from gpustack.adapters.nvml import Nvml, NvmlError, NvmlMismatch


def main() -> None:
    """Print the answer."""
    print(json.dumps(_answer()))


def _answer() -> dict[str, object]:
    try:
        found = Nvml().inventory()
    except NvmlMismatch as error:
        return {"mismatch": str(error)}
    except NvmlError as error:
        return {"problem": str(error)}
    return {
        "driver": found.driver,
        "minors": [card.minor for card in found.cards],
        "left_out": list(found.left_out),
    }


if __name__ == "__main__":
    main()
