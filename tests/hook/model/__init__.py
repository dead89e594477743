"""The protocols of the mapped files as small machines, and a search through all their states.

``state`` has the words that are shared and those that a process keeps to itself. ``steps``,
``slots`` and ``calls`` have one row for each operation of ``hook/src/shared/ledger.c`` and
``slot_lock.c`` on shared memory or on locks, in the code's order. ``machine`` runs processes by
them and says what must hold, ``search`` plays every interleaving, ``faults`` breaks the protocol in
the ways that the search must find, ``page`` does the same for the pages with two slots.
``test_ledger_steps.py`` tests that the rows are the code's own: it plays schedules on both.

Not in it: more cards than one (each has words of its own), a full ledger, processes that lose their
slot (overlayfs, ``hook/src/shared/slot_lock.h``), tenants that write noise, and memory that isn't
sequentially consistent (all shared words are).
"""
