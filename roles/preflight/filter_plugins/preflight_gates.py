"""The filter that finds who runs with the feature gate of native gangs."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

GATE = "GenericWorkload"
# It is alpha from 1.35 on and beta from 1.37 on. Its own name goes before those of all of a kind.
KINDS = {"AllAlpha": "in 1.35 and 1.36", "AllBeta": "from 1.37 on"}
# What Go's strconv.ParseBool takes for true.
TRUE = ("1", "t", "T", "true", "TRUE", "True")


def gated(processes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the programs that run with the gate, each once, with what turns it on.

    Args:
        processes: the host's own, as the module kube_scheduler_processes finds them.
    """
    found: dict[str, None] = {}
    for process in processes:
        gates = dict(_gates(process["command"]))
        named = [GATE] if GATE in gates else list(KINDS)
        for gate in named:
            if gates.get(gate) in TRUE:
                since = f", which sets it {KINDS[gate]}" if gate in KINDS else ""
                found[f"{process['program']} has {gate}={gates[gate]}{since}"] = None
    return list(found)


def _gates(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the gates of a command line with their values; the last of a name counts."""
    for word, after in zip(words, [*words, ""][1:], strict=True):
        match = re.fullmatch(r"--feature-gates(?:=(.*))?", word)
        said = "" if match is None else after if match[1] is None else match[1]
        for each in said.strip("\"'").split(","):
            component, _, gate = each.rpartition(":")
            if component.strip() in ("", "kube"):
                name, _, value = gate.partition("=")
                yield name.strip(), value.strip()


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {"preflight_gates": gated}
