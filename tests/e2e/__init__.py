"""The whole product on a real cluster: only the silicon is simulated."""
