"""The search for the cards of one pod on one node, and for what must end so that it fits."""
