"""The three files that the hook maps: limits, activity, ledger."""
