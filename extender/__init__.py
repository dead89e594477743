"""The scheduler's side: which node and which cards a pod gets.

``service`` composes the parts: ``state`` (the cluster as the watches and our own decisions have it,
and what its nodes answer to a pod), ``verbs`` (what the scheduler asks), ``writes`` (what the API
server and the pods are told), ``web`` (HTTP).
"""
