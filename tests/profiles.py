"""How hard hypothesis tries, by name: `pytest --profile NAME`.

- `ci`, the default: 200 examples of each property, always the same ones. They follow from the
  test's own code, so a commit has one verdict on every machine and a red build means the change;
  no database, which would make the verdict depend on what ran before.
- `dev`: 50 examples, new ones each time, and a failure is tried again first.
- `nightly`: 20 000 new examples each time. This is where the unexpected is looked for; a failure
  prints the seed that brings it back.
"""

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

DEFAULT: Final = "ci"

_PROFILES: Final[dict[str, dict[str, Any]]] = {
    "ci": {"max_examples": 200, "derandomize": True, "database": None},
    # Said here, because hypothesis has other defaults where it sees a build's environment.
    "dev": {"max_examples": 50, "derandomize": False},
    "nightly": {
        "max_examples": 20_000,
        "derandomize": False,
        "database": None,
        "print_blob": True,
    },
}


def register() -> None:
    """Make the profiles known and load the default; hypothesis' own options still win."""
    for name, options in _PROFILES.items():
        # A loaded machine is slow now and then; that is no failure of a pure function.
        slow = (HealthCheck.too_slow,)
        settings.register_profile(name, deadline=None, suppress_health_check=slow, **options)
    settings.load_profile(DEFAULT)


def choose(name: str) -> None:
    """Load a profile.

    Raises:
        pytest.UsageError: no such profile; names those that there are.
    """
    if name not in _PROFILES:
        known = ", ".join(sorted(_PROFILES))
        raise pytest.UsageError(f"--profile: {name!r} is not a profile; choose one of {known}")
    settings.load_profile(name)


def of(name: str) -> settings:
    """Return a profile's settings, as hypothesis knows them."""
    return settings.get_profile(name)


def at_least(examples: int) -> settings:
    """Return the loaded profile with so many examples or more: for what takes a millisecond.

    A profile with fewer examples than the default tries that part of them.
    """
    loaded = of(settings.get_current_profile_name()).max_examples
    part = examples * loaded // of(DEFAULT).max_examples
    return settings(max_examples=max(loaded, min(examples, part)))
