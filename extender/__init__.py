"""The scheduler's side: which node and which cards a pod gets.

``service`` composes the parts: ``view`` (what the cluster looks like, fed by watches, with the
decisions made here counted at once), ``predicates`` (the verb of the seeds' scheduler policy),
``writer`` (reads and writes of the API server), ``events`` and ``retry`` (what pods are told).
"""
