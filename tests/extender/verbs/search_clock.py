"""A clock by which searches take time, and nothing else does."""

from collections.abc import Callable
from typing import Any


class SearchClock:
    """Stands still, but for searches: each takes ``search`` seconds."""

    def __init__(self, search: float = 1.0) -> None:
        self.seconds = 100.0
        self.search = search

    def __call__(self) -> float:
        return self.seconds

    def slow(self, placer: Callable[..., Any]) -> Callable[..., Any]:
        """Return a placer whose searches take that time."""

        def searched(*limits: Any, **options: Any) -> Any:
            self.seconds += self.search
            return placer(*limits, **options)

        return searched
