"""How near the cards of a node are: pairs, the tree that they form, its texts."""
