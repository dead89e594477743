"""Tests of roles, playbooks, inventories and the bundle that need no host."""
