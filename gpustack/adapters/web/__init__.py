"""What an HTTP server of ours is made of: one for the host, and TLS for other machines."""
