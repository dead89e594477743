"""Logging to stderr, with the priority that journald reads in front of every line."""

import logging
import sys

# syslog priorities, as sd-daemon(3) writes them
_PRIORITIES = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


class _JournalFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Put the priority in front of every line: journald splits a traceback into lines."""
        prefix = f"<{_PRIORITIES.get(record.levelno, 6)}>"
        return "\n".join(prefix + line for line in super().format(record).splitlines())


def set_up(level: str, *, journal: bool) -> None:
    """Send everything from `level` on to stderr; `journal` says that journald reads it."""
    handler = logging.StreamHandler(sys.stderr)
    if journal:
        handler.setFormatter(_JournalFormatter("%(name)s: %(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
