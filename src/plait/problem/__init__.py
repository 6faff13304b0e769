"""What is minimised: losses, penalties and feature matrices, and how good scores are."""
