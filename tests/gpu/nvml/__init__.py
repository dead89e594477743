"""What NVML counts on a card: GPU time of processes, and memory whose maker is gone."""
