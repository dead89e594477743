"""The two device plugins, and keeping them registered with the kubelet."""
