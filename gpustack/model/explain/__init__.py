"""Why a pod waits and what would let it run; why a pod runs where it does."""
