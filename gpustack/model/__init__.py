"""The one brain: where a pod goes, on which node and which cards, and why not elsewhere.

Pure functions over frozen values: no I/O, no clock, no logging, nothing from outside the standard
library. The extender calls it to decide, the agent to verify, the command line to explain.

Read in this order: `units`, `topology`, `device` (what there is), `request` (what is asked),
`holding` (what a placed pod takes), `objective` and `cardset` (the best n cards), `policies` (in
which order to try), `placement` and `attempt` (the answer, and the search for it), `fleet` (many
pods on many nodes), `whatif` and `replay` (plans), `verification` (somebody else's answer),
`explanation` (why not), `usage` and `quota` (how much at most), `advice` (what would let it fit),
`alternatives` (why here). A guide with drawings: docs/model.md.
"""
