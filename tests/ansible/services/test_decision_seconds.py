"""An extender decides before its scheduler gives up, for any setting of both by the site."""

from typing import Any

import jinja2
import pytest

from gpustack.wire import config, schemas
from tests.ansible import layout

ROLE = layout.ROOT / "roles" / "gpustack_extender"
NAME = "gpustack_extender_decision_seconds"
POLICY_SECONDS = 5.0  # kube-scheduler's own default (DefaultExtenderTimeout)


def value_of(site: dict[str, Any], expression: str) -> Any:
    """Evaluate an expression with the role's variables as they follow from a site's."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701
    own = {
        **layout.load(ROLE / "defaults" / "main.yml"),
        **layout.load(ROLE / "vars" / "main.yml"),
        **site,
    }
    known = dict(site)
    for name in ("__gpustack_extender_patience", NAME):
        known[name] = environment.from_string(str(own[name])).render(known)
    return environment.compile_expression(expression)(known)


@pytest.mark.parametrize(
    ("site", "seconds"),
    [
        ({}, 8),
        ({"kube_scheduler_form": "configuration"}, 8),
        ({"kube_scheduler_form": "policy"}, 3),
        # a Policy of ours doesn't hand it on
        ({"kube_scheduler_form": "policy", "kube_scheduler_http_timeout_seconds": 60}, 3),
        ({"kube_scheduler_http_timeout_seconds": 60}, 8),
        ({"kube_scheduler_http_timeout_seconds": 5}, 3),
        ({"kube_scheduler_http_timeout_seconds": 3}, 1),
    ],
)
def test_the_default_is_below_the_schedulers_timeout(site: dict[str, Any], seconds: float) -> None:
    decides = float(value_of(site, NAME))
    assert decides == seconds
    waits = site.get("kube_scheduler_http_timeout_seconds", 10)
    assert decides < (POLICY_SECONDS if site.get("kube_scheduler_form") == "policy" else waits)
    config.parse_config(f"decision_seconds: {decides}", schemas.load("extender"), ROLE)


@pytest.mark.parametrize(
    ("site", "allowed"),
    [
        ({}, True),
        ({"kube_scheduler_form": "policy"}, True),
        ({NAME: 9.5}, True),
        ({NAME: 10}, False),
        ({NAME: 8, "kube_scheduler_form": "policy"}, False),
        ({NAME: 8, "kube_scheduler_http_timeout_seconds": 8}, False),
        ({NAME: 20, "kube_scheduler_http_timeout_seconds": 30}, True),
    ],
)
def test_preflight_refuses_more_seconds_than_the_scheduler_waits(
    site: dict[str, Any], allowed: bool
) -> None:
    tasks = layout.load(ROLE / "tasks" / "preflight.yml")
    (check,) = (
        task["ansible.builtin.assert"]["that"]
        for task in tasks
        if NAME in task.get("ansible.builtin.assert", {}).get("that", "")
    )
    assert value_of(site, check) is allowed
