"""The main job on simulated hosts and cards: what ``make demo`` runs and prints."""
