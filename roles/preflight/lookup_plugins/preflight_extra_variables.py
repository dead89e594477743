"""Lookup `preflight_extra_variables`: the variables of the command line, by name.

Ansible evaluates a play's keywords (`serial`, `max_fail_percentage`) without any host: of all
variables that a user may set they see these only, and a value doesn't show a task its origin.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible.utils.vars import load_extra_vars

DOCUMENTATION = r"""
name: preflight_extra_variables
short_description: The variables of the command line
description:
  - Returns one element, a dictionary of what was given with C(--extra-vars).
options: {}
"""


class LookupModule(LookupBase):
    """Ansible's entry point."""

    def run(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
        """Return a list of one dictionary."""
        return [dict(load_extra_vars(self._loader))]
