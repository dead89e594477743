"""Writes the tables of docs/reference from the code: `python -m tests.docs.tables`.

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`. A test compares the files
in the repository with this program's output, so the two can't drift.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

import extender.main
import gpustack.agent.main
import gpustack.agent.mounts.main
import gpustack.cli.main
from extender.api import openapi
from extender.offline import OfflineExtender
from extender.settings import load
from gpustack.adapters.nvml import ACCEPTABLE, ENDS_WORDS, FAULTS, XID_RULES, XidRule
from gpustack.agent.activity.energy import EnergySums
from gpustack.agent.activity.sampler import ActivitySampler
from gpustack.agent.containers.allocation_records import AllocationRecords
from gpustack.agent.control import reload
from gpustack.agent.kubelet.call_durations import CallDurations
from gpustack.agent.node.inventory import CardInventory
from gpustack.agent.violations.reactions import FINDINGS
from gpustack.agent.web import figures, metrics, self_metrics
from gpustack.agent.web.usage import UsageReader
from gpustack.model.codes import MEANINGS
from gpustack.model.node import Node
from gpustack.model.units import MOST_CARDS, MOST_LINKED_CARDS
from gpustack.wire import nodes, pods, schemas, user_keys, violations
from gpustack.wire.extender_v1.filter import MOST_NODES
from gpustack.wire.mapped import ledger
from tests.admission import rights
from tests.docs import driver_packages, helps

ROOT: Final = pathlib.Path(__file__).resolve().parents[2]
_DOCS: Final = ROOT / "docs"
PAGES: Final = (_DOCS / "reference.md", _DOCS / "security.md", *_DOCS.glob("reference/*.md"))
BLOCK: Final = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_KIB: Final = 1024


def rows(heads: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    """Return a table."""
    body = "".join(f"| {' | '.join(map(_cell, cells))} |\n" for cells in lines)
    return f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n{body}"


def _cell(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "&#124;")


def settings(schema: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, ...]]:
    """Yield a row for each key of a configuration file."""
    for name, each in schema["properties"].items():
        if "properties" in each:
            yield from settings(each, f"{prefix}{name}.")
        else:
            default = f"`{json.dumps(each['default'])}`" if "default" in each else ""
            meaning = each.get("description", schema.get("description", ""))
            yield f"`{prefix}{name}`", _kind(each), default, meaning


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema["type"] if isinstance(schema["type"], str) else " or ".join(schema["type"])
    if "minimum" in schema and "maximum" in schema:
        kind += f", {schema['minimum']} to {schema['maximum']}"
    return kind


def configuration(name: str) -> str:
    """Return the keys of a configuration file, by its schema."""
    return rows(("key", "value", "default", "meaning"), settings(schemas.load(name)))


def card_fields() -> str:
    """Return the fields of a card in the node's annotation."""
    devices = schemas.load("gpu-devices")["properties"]["devices"]["items"]
    required = devices["required"]
    return rows(
        ("field", "value", "", "meaning"),
        (
            (f"`{name}`", _kind(each), "required" if name in required else "", each["description"])
            for name, each in devices["properties"].items()
        ),
    )


def violation_fields() -> str:
    """Return the fields of a violation in the node's annotation."""
    items = schemas.load("gpu-violations")["properties"]["violations"]["items"]["properties"]
    found = ((f"`{name}`", each["description"]) for name, each in items.items())
    return rows(("field", "meaning"), found)


def scheduler_paths() -> str:
    """Return the paths that the extender answers."""
    return rows(
        ("path", "method", "answer"),
        (
            (f"`{path}`", method.upper(), each["summary"])
            for path, methods in openapi.description()["paths"].items()
            if not path.startswith("/page/")
            for method, each in methods.items()
        ),
    )


def _families(families: Iterable[Any]) -> str:
    return rows(
        ("metric", "type", "meaning"),
        (
            (
                f"`{each.name}{'_total' if each.type == 'counter' else ''}`",
                each.type,
                each.documentation,
            )
            for each in sorted(families, key=lambda each: str(each.name))
        ),
    )


def extender_metrics() -> str:
    """Return the extender's metrics."""
    served = OfflineExtender(load(None), str(ROOT / "examples/snapshot.json"))
    return _families(served.metrics.registry.collect())


def findings() -> str:
    """Return what the agent finds against limits, and which of it is acted on."""
    return rows(
        ("what is found", "Event", "acted on", "why no honest tenant is harmed"),
        ((each.found, f"`{each.reason}`", each.acts or "never", each.why) for each in FINDINGS),
    )


class _NoCards:
    """A host without cards and containers: metrics have their names there, too."""

    node = Node(name="", cards=(), links=())
    sums = EnergySums()
    xids: Final[dict[tuple[str, str], int]] = {}

    @property
    def states(self) -> "_NoCards":
        return self

    @property
    def energy(self) -> "_NoCards":
        return self

    def all(self) -> tuple[()]:
        return ()

    def taken(self, node: Node) -> Node:
        return node

    def read(self) -> tuple[()]:
        return ()


def agent_metrics() -> str:
    """Return the agent's metrics."""
    nothing = _NoCards()
    unread: Any = None
    numbers = (
        *self_metrics.pods(unread, unread, unread, unread),
        *self_metrics.identification(unread, unread, unread, unread),
        *self_metrics.health(unread),
        *self_metrics.audited(unread),
        *self_metrics.isolation(unread, unread),
        *self_metrics.originals(None),
        *self_metrics.connections(unread, unread, unread),
    )
    return _families(
        metrics.registry(
            cast(CardInventory, nothing),
            cast(AllocationRecords, nothing),
            cast(UsageReader, nothing),
            numbers=[dataclasses.replace(each, read=lambda: 0.0) for each in numbers],
            others=figures.collectors(
                unread,
                cast(CardInventory, nothing),
                cast(AllocationRecords, nothing),
                cast(ActivitySampler, nothing),
                CallDurations(),
            ),
        ).collect()
    )


def xids() -> str:
    """Return NVIDIA's actions, the XIDs of each, and what they do to a card."""
    by_action: dict[str, list[XidRule]] = {}
    for rule in XID_RULES.values():
        by_action.setdefault(rule.action, []).append(rule)
    lines = (
        (
            f"`{action}`" if action.isupper() else action,
            ", ".join(f"{each.number} {each.meaning}" for each in rules),
            ENDS_WORDS[rules[0].ends],
        )
        for action, rules in sorted(by_action.items(), key=lambda item: item[1][0].ends.value)
    )
    return rows(("NVIDIA's action", "XIDs", "the card"), lines)


def faults() -> str:
    """Return the faults that queries find."""
    return rows(
        ("reason", "meaning, and what to do", "`gpustack card release` puts it to use"),
        (
            (f"`{name}`", text, "yes" if name in ACCEPTABLE else "no")
            for name, text in FAULTS.items()
        ),
    )


def live_keys() -> str:
    """Return the keys of agent.yml that change while the agent runs."""
    return ", ".join(f"`{key}`" for key in reload.LIVE.values()) + "\n"


def reasons() -> str:
    """Return a section for each code: where it is met, its words, and what to do."""
    found = sorted(MEANINGS.items(), key=lambda item: item[0].lower())
    return "".join(
        f"### {code}\n{each.where[0].upper()}{each.where[1:]}: {each.words}.\n\n{each.cure}\n\n"
        for code, each in found
    )


def limits() -> str:
    """Return the limits of sizes that come in."""
    body = schemas.load("extender")["properties"]["request_limit_bytes"]["default"] >> 20
    keys = f"{user_keys.LONGEST_BYTES} bytes, {user_keys.MOST_NAMES} names"
    said = f"{violations.MOST_TEXT_BYTES // _KIB} KiB, {violations.MOST} violations"
    away, far = "the node is left out, by name", "every pair counts as the farthest"
    refused = "the pod is refused: `BadRequest`"
    return rows(
        ("what", "at most", "beyond it"),
        (
            ("cards of a node", f"{MOST_CARDS}", away),
            ("cards of a node whose links are read", f"{MOST_LINKED_CARDS}", far),
            ("the annotation `gpu-devices`", f"{nodes.MOST_TEXT_BYTES // _KIB} KiB", away),
            ("the annotation `gpu-violations`", said, "none of them is shown"),
            ("a user key of a pod", keys, refused),
            ("containers of a pod with GPUs", f"{pods.MOST_CONTAINERS}", refused),
            ("cards that these ask for in all", f"{pods.MOST_CARDS_ASKED}", refused),
            ("processes of a share on its card", f"{ledger.SLOTS}", "the hook refuses the next"),
            ("nodes of a scheduler's call", f"{MOST_NODES}", "400, by name"),
            ("body of a scheduler's call", f"{body} MiB", "413; see `request_limit_bytes`"),
        ),
    )


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "gpustack": helps.commands,
    "gpustack-agent": lambda: helps.help_of(gpustack.agent.main.main),
    "gpustack-mount": lambda: helps.help_of(gpustack.agent.mounts.main.main),
    "gpustack-extender": lambda: helps.help_of(extender.main.main),
    "agent.yml": lambda: configuration("agent"),
    "extender.yml": lambda: configuration("extender"),
    "card": card_fields,
    "violation": violation_fields,
    "paths of the extender": scheduler_paths,
    "metrics of the extender": extender_metrics,
    "metrics of the agent": agent_metrics,
    "xids": xids,
    "findings": findings,
    "faults of cards": faults,
    "keys that reload": live_keys,
    "reasons": reasons,
    "limits": limits,
    "driver packages": lambda: rows(driver_packages.HEADS, driver_packages.lines()),
    "accounts": lambda: rows(("account", "who that is"), rights.ACCOUNTS.items()),
    "rights": lambda: rows(("object", "call", "field", *rights.ACCOUNTS), rights.table()),
}


def render(page: str) -> str:
    """Return a page with its tables as the code has them."""
    return BLOCK.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", page)


def main() -> None:
    """Write all pages."""
    for path in PAGES:
        path.write_text(render(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
