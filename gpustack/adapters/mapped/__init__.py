"""File I/O of the three mapped files: limits, activity and ledger.

Sources of truth: `hook/include/vcuda_layout.h`, and `gpustack/wire/mapped` for the same in Python.
"""

from gpustack.adapters.mapped.files import (
    create_activity,
    create_limits,
    open_for_writing,
    publish_activity,
    publish_limits,
    read_activity,
    read_layout,
    read_limits,
)
from gpustack.adapters.mapped.forms import (
    FORMS,
    INODES,
    FileForm,
    has_own_file_system,
    is_in_form,
    restore,
)
from gpustack.adapters.mapped.ledgers import (
    BusyLedgerError,
    LockedLedgerError,
    create_ledger,
    is_whole_ledger,
    load,
    open_ledger,
    read_ledger,
    read_ledger_head,
    read_ledger_slots,
    read_open_ledger,
)

__all__ = [
    "FORMS",
    "INODES",
    "BusyLedgerError",
    "FileForm",
    "LockedLedgerError",
    "create_activity",
    "create_ledger",
    "create_limits",
    "has_own_file_system",
    "is_in_form",
    "is_whole_ledger",
    "load",
    "open_for_writing",
    "open_ledger",
    "publish_activity",
    "publish_limits",
    "read_activity",
    "read_layout",
    "read_ledger",
    "read_ledger_head",
    "read_ledger_slots",
    "read_limits",
    "read_open_ledger",
    "restore",
]
