"""The container of an anonymous call of the kubelet, and of a process on a card."""
