"""What the commands demo, parity and privacy compute and draw."""
