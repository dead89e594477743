"""A site of three GPU hosts changes while it runs: another release, another driver, a host less."""
