"""The driver: its library answers, fits the module, and the device nodes are there."""

from collections.abc import Iterator
from typing import Final

from gpustack.cli.doctor.check import Found, Severity, judged, ok
from gpustack.cli.doctor.host.facts import HostFacts

MODULES: Final = ("nvidia", "nvidia_uvm")
# The driver answers, so that its installation helps no card.
_CARD_FAILS: Final = (
    'gpustack card list; dmesg | grep -i nvrm; docs/troubleshooting.md, "A card fails"'
)


def nvml(facts: HostFacts) -> list[Found]:
    """Say whether NVML answers, and which cards it leaves out."""
    if facts.nvml is None:
        return [Found(level=Severity.FAIL, text="NVML gives no answer")]
    if not facts.nvml.minors and not facts.nvml.left_out:
        return [Found(level=Severity.FAIL, text=f"driver {facts.nvml.driver} answers with no card")]
    problems = (
        Found(level=Severity.FAIL, subject="card", text=each, mend=_CARD_FAILS)
        for each in facts.nvml.left_out
    )
    count = len(facts.nvml.minors)
    return judged(problems, f"driver {facts.nvml.driver} answers, with {count} cards")


def version(facts: HostFacts) -> list[Found]:
    """Say whether the library is of the loaded module's version."""
    if facts.mismatch:
        return [Found(level=Severity.FAIL, text=facts.mismatch)]
    said = facts.nvml.driver if facts.nvml is not None else ""
    if said != facts.module_version:
        text = f"the library says {said}, and the loaded module is {facts.module_version}"
        return [Found(level=Severity.FAIL, text=text)]
    return ok(f"library and module are {said}")


def modules(facts: HostFacts) -> list[Found]:
    """Say whether the driver's modules are loaded."""
    problems = (
        Found(level=Severity.FAIL, subject=f"module {name}", text="is not loaded")
        for name in MODULES
        if name not in facts.modules
    )
    return judged(problems, f"{' and '.join(MODULES)} are loaded")


def device_nodes(facts: HostFacts) -> list[Found]:
    """Say whether the device nodes that containers get are there."""
    return judged(_nodes(facts), f"{', '.join(facts.device_nodes)} are there")


def _nodes(facts: HostFacts) -> Iterator[Found]:
    for path, problem in facts.device_nodes.items():
        if problem:
            yield Found(level=Severity.FAIL, subject=path, text=problem)
