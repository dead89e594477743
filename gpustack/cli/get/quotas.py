"""``gpustack get quotas``: the quota of each namespace that has one, and what is used of it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpustack.cli.get.filters import Filters, Question
from gpustack.cli.output.listing import ListedItem, Listing
from gpustack.cli.output.printing import Alarm
from gpustack.model.model_name import model_matches
from gpustack.model.units import CORES_PER_CARD, cards_text
from gpustack.wire import explanations

_HEAD: Final = ("NAMESPACE", "MODEL", "USED(cards)", "QUOTA(cards)", "LEFT(cards)")
_WIDE: Final = ("POOLS", "LARGEST(cards)")
_SHOWN: Final = 3  # pods that a cell names


def listing(question: Question) -> Listing:
    """Return the namespaces by name, with a line for each model."""
    cluster, filters = question.cluster, question.filters
    names = [
        name
        for name in cluster.quota.namespaces
        if filters.namespace in {"", name}
        and (not filters.pool or filters.pool in (cluster.quota.namespaces[name].pools or [""]))
    ]
    found = explanations.quotas(cluster.quota, cluster.usage(), names)
    items = [_item(each) for each in (_of_model(one, filters) for one in found) if each]
    models = [model for each in items for model in each.value["models"]]
    sums = {
        "namespaces": len(items),
        "used": round(sum(model["used"] for model in models), 2),
        "cards": round(sum(model["cards"] for model in models), 2),
        "over": sum(model["used"] > model["cards"] for model in models),
    }
    return Listing(
        kind="quotas",
        head=_HEAD,
        wide_head=_WIDE,
        items=items,
        sums=sums,
        sums_rows=[
            ("NAMESPACES", "USED(cards)", "QUOTA(cards)", "OVER"),
            (
                sums["namespaces"],
                _cards(sums["used"]),
                _cards(sums["cards"]),
                Alarm(sums["over"]) if sums["over"] else 0,
            ),
        ],
    )


def _of_model(quota: Mapping[str, Any], filters: Filters) -> dict[str, Any]:
    """Return a quota with the models that are asked for; empty where it has none of them."""
    if not filters.model:
        return dict(quota)
    models = [
        each
        for each in quota["models"]
        if model_matches(filters.model, each["model"])
        or model_matches(each["model"], filters.model)
    ]
    return {**quota, "models": models} if models else {}


def _item(quota: Mapping[str, Any]) -> ListedItem:
    name, pools = quota["namespace"], ",".join(quota["pools"]) or "all"
    rows: list[tuple[object, ...]] = []
    wide: list[tuple[object, ...]] = []
    for model in quota["models"]:
        used, most = model["used"], model["cards"]
        left = _cards(most - used)
        shown = Alarm(left) if used > most else left
        rows.append((name, model["model"], _cards(used), _cards(most), shown))
        wide.append((pools, _largest(model["pods"])))
    if not rows:
        rows.append((name, "none", "-", "-", "-"))
        wide.append((pools, "-"))
    return ListedItem(key=name, name=name, value=quota, rows=rows, wide=wide)


def _largest(pods: Sequence[Mapping[str, Any]]) -> str:
    return " ".join(f"{each['name']}={_cards(each['cards'])}" for each in pods[:_SHOWN]) or "-"


def _cards(number: float) -> str:
    hundredths = round(number * CORES_PER_CARD)
    return f"-{cards_text(-hundredths)}" if hundredths < 0 else cards_text(hundredths)
