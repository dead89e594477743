"""The scheduler's side: which node and which cards a pod gets.

``extender`` composes the parts: ``cache`` (the cluster as the watches and our own decisions have
it, and what its nodes answer to a pod), ``verbs`` (what the scheduler asks), ``quota``, ``requeue``
(refused pods are tried again), ``apiserver`` (writes to pods), ``observability``, ``api`` and
``http``.
"""
