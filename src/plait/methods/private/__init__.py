"""The sides that private parties play."""
