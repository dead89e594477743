"""Where a pod goes, on which node and which cards, and why not elsewhere.

Pure functions over frozen values: no I/O, no clock, no logging, nothing from outside the standard
library. The extender calls it to decide, the agent to verify, the command line to explain.

Read in this order: `units`, `topology`, `node` (what there is), `request` (what is asked),
`placement` (what a placed pod takes), `place` (the answer), `search` (the search for it),
`policies` (in which order to try), `refusal` (why not), `quota` (how much at most),
`verification` (the check of a decision that another made), `cluster` (many pods on many nodes, and
plans), `explain` (what would let a pod run, and why one runs where it does). A guide with drawings:
docs/model.md.
"""
