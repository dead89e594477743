"""The protocols of the mapped files as small machines, and a search through all they can do.

``state`` says what is shared and what a process keeps to itself. ``steps``, ``slots`` and ``calls``
have one row for each operation of ``hook/src/shared/ledger.c`` and ``slot_lock.c`` on shared memory
or on locks, in the code's order. ``machine`` runs processes by them and says what must hold,
``search`` plays every interleaving, ``faults`` breaks the protocol in the ways that it must not be
broken, ``page`` is the same of the pages with two slots. That the rows are the code's own is tested
by ``test_ledger_steps.py``: it plays schedules on both.

Not in it: more cards than one (each has words of its own), a full ledger, processes that lose their
slot (overlayfs, ``hook/src/shared/slot_lock.h``), tenants that write noise, and memory that isn't
sequentially consistent (all shared words are).
"""
