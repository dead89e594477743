"""The services of the agent's own socket, `agent.sock`."""
