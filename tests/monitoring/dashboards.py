"""Writes monitoring/dashboards, for Grafana: `python -m tests.monitoring.dashboards`.

A test compares the files in the repository with what this program makes. Each expression is plain
PromQL but for the variables that Grafana fills in, which `with_any` replaces by "every value".
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.monitoring.tools import ROOT

FOLDER: Final = ROOT / "monitoring/dashboards"
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3


@dataclasses.dataclass(frozen=True, slots=True)
class Panel:
    """A graph: its title, the unit as Grafana names it, and its expressions with their legends."""

    title: str
    unit: str
    lines: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard, and the variable by which its reader chooses.

    Attributes:
        variable: the label that is chosen by, and a metric that has it; empty for none.
    """

    title: str
    variable: tuple[str, str]
    panels: tuple[Panel, ...]

    @property
    def name(self) -> str:
        """The name of its file."""
        return self.title.rpartition(" ")[2]

    def expressions(self) -> Iterator[str]:
        """Yield every expression, for any value of the variable."""
        for panel in self.panels:
            for line in panel.lines.values():
                yield with_any(line)


CLUSTER: Final = Dashboard(
    "gpustack cluster",
    ("", ""),
    (
        Panel("Cards", "short", {
            "{{model}}": "sum by (model) (node_model:gpustack_cards:max)",
            "{{model}} healthy": "sum by (model) (node_model:gpustack_healthy_cards:max)",
        }),
        Panel("Cards used and free", "short", {
            "used": "sum(node:gpustack_used_cards:max)",
            "free": "sum(node:gpustack_free_cards:max)",
            "fragmented": "sum(max by (node) (gpustack_node_fragmented_cards))",
        }),
        Panel("Cards held by pool", "short", {
            "{{pool}}": "sum by (pool) (namespace_model:gpustack_held_cards:max)",
        }),
        Panel("Cards held by namespace", "short", {
            "{{namespace}}":
                "topk(20, sum by (namespace) (namespace_model:gpustack_held_cards:max))",
        }),
        Panel("Waiting pods by reason", "short", {
            "{{reason}}": "max by (reason) (gpustack_extender_waiting_pods) > 0",
        }),
        Panel("Oldest waiting pod", "s", {
            "oldest": "max(gpustack_extender_oldest_waiting_seconds)",
        }),
        Panel("Time until cards are decided", "s", {
            "p50": "histogram_quantile(0.5, sum by (le)"
                   " (rate(gpustack_extender_pod_wait_seconds_bucket[1h])))",
            "p99": "histogram_quantile(0.99, sum by (le)"
                   " (rate(gpustack_extender_pod_wait_seconds_bucket[1h])))",
        }),
        Panel("Extender's answers, p99", "s", {
            "{{verb}}": "histogram_quantile(0.99, sum by (verb, le)"
                        " (rate(gpustack_extender_verb_duration_seconds_bucket[5m])))",
        }),
        Panel("Daemons that answer", "short", {"{{job}}": 'sum by (job) (up{job=~"gpustack-.*"})'}),
        Panel("Energy", "watt", {
            "{{namespace}}": "topk(20, namespace:gpustack_energy_watts:rate5m)",
            "idle": "sum(rate(gpustack_card_idle_energy_joules_total[5m]))",
        }),
        Panel("Violations in an hour", "short", {
            "{{reason}}": "sum by (reason) (increase(gpustack_share_violations_total[1h])) > 0",
        }),
        Panel("Cards closed to new pods", "short", {
            "{{reason}}": "sum by (reason) (gpustack_closed_cards)",
        }),
    ),
)  # fmt: skip

_CARD: Final = '* on (uuid) group_left (node) gpustack_card_info{node=~"$node"}'

NODE: Final = Dashboard(
    "gpustack node",
    ("node", "gpustack_card_info"),
    tuple(
        Panel(title, unit, {"{{node}} {{minor}}": f"{metric} {_CARD}"})
        for title, unit, metric in (
            ("Healthy", "bool", "gpustack_card_healthy"),
            ("Compute allocated", "percentunit", "gpustack_card_allocated_cores_ratio"),
            ("Busy", "percentunit", "gpustack_card_busy_ratio"),
            ("Memory allocated", "bytes", "gpustack_card_allocated_memory_bytes"),
            ("Memory used", "bytes", "gpustack_card_memory_used_bytes"),
            ("Power", "watt", "gpustack_card_power_watts"),
            ("Temperature", "celsius", "gpustack_card_temperature_celsius"),
            (
                "Memory errors, uncorrected",
                "short",
                "gpustack_card_uncorrected_memory_errors_total",
            ),
            ("XIDs in an hour", "short", "increase(gpustack_card_xids_total[1h])"),
        )
    ),
)

_OF: Final = '{namespace=~"$namespace"}'
_CONTAINER: Final = "{{pod_name}}/{{container_name}}"

TENANT: Final = Dashboard(
    "gpustack tenant",
    ("namespace", "gpustack_namespace_gpu_seconds_total"),
    (
        Panel("Cards held", "short", {
            "{{model}}": f"sum by (model) (namespace_model:gpustack_held_cards:max{_OF})",
        }),
        Panel("Quota", "short", {
            "{{model}} used": f"max by (model) (gpustack_quota_used_cards{_OF})",
            "{{model}} allowed": f"max by (model) (gpustack_quota_limit_cards{_OF})",
        }),
        Panel("Waiting pods", "short", {
            "{{namespace}}": f"max by (namespace) (gpustack_namespace_waiting_pods{_OF})",
        }),
        Panel("Oldest waiting pod", "s", {
            "{{namespace}}": f"max by (namespace) (gpustack_namespace_oldest_waiting_seconds{_OF})",
        }),
        Panel("Use", "percent", {
            _CONTAINER: 'container_gpu_utilization{gpu="total", namespace=~"$namespace"}',
        }),
        Panel("Saturation", "percentunit", {
            _CONTAINER: f"container:gpustack_saturation:ratio_rate5m{_OF}",
        }),
        Panel("Memory of shares", "bytes", {
            _CONTAINER: f"gpustack_container_memory_charged_bytes{_OF}",
            f"{_CONTAINER} limit": f"gpustack_container_memory_limit_bytes{_OF}",
        }),
        Panel("Refused requests for memory in an hour", "short", {
            _CONTAINER: f"increase(gpustack_container_denied_requests_total{_OF}[1h])",
        }),
        Panel("Cost a day", "short", {
            "{{namespace}}": f"namespace:gpustack_cost:rate5m{_OF} * 86400",
        }),
        Panel("Energy", "watt", {
            "{{namespace}}": f"namespace:gpustack_energy_watts:rate5m{_OF}",
        }),
    ),
)  # fmt: skip

DASHBOARDS: Final = (CLUSTER, NODE, TENANT)


def with_any(expression: str) -> str:
    """Return an expression for every value of Grafana's variables."""
    return expression.replace("$namespace", ".*").replace("$node", ".*")


def text(made: Dashboard) -> str:
    """Return a dashboard as Grafana imports it."""
    panels = [_panel(each, at) for at, each in enumerate(made.panels)]
    value = {
        "uid": made.title.replace(" ", "-"),
        "title": made.title,
        "tags": ["gpustack"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": list(_variables(made))},
        "panels": panels,
    }
    return json.dumps(value, indent=1) + "\n"


def _panel(panel: Panel, at: int) -> Mapping[str, Any]:
    row, column = divmod(at, _COLUMNS)
    return {
        "id": at + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": row * _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": line, "legendFormat": legend}
            for index, (legend, line) in enumerate(panel.lines.items())
        ],
    }


def _variables(made: Dashboard) -> Iterator[Mapping[str, Any]]:
    yield {"name": "source", "type": "datasource", "query": "prometheus"}
    label, metric = made.variable
    if label:
        query = f"label_values({metric}, {label})"
        yield {
            "name": label,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": "values"},
            "refresh": 2,
            "includeAll": True,
            "allValue": ".*",
            "multi": True,
        }


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for each in DASHBOARDS:
        (FOLDER / f"{each.name}.json").write_text(text(each), "utf-8")


if __name__ == "__main__":
    main()
