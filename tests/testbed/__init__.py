"""The testbed: systemd hosts in podman, a real Kubernetes on them, a simulated driver on GPU hosts.

``python -m tests.testbed --help`` lists the commands, ``README.md`` beside this file the names.
"""
