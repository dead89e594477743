"""Where a container finds what the agent gives it (docs/reference/container.md lists them)."""

from typing import Final

DRIVER_PATH: Final = "/usr/local/nvidia"
PRELOAD_PATH: Final = "/etc/ld.so.preload"
HOOK_PATH: Final = "/etc/vcuda/hook"
"""A build's folder; what is mounted over /etc/ld.so.preload names it."""
LIMITS_PATH: Final = "/etc/vcuda/limits"
ACTIVITY_PATH: Final = "/etc/vcuda/activity"
LEDGER_PATH: Final = "/etc/vcuda/ledger"
