"""Attacks on the guarantee as a whole: each of these succeeded once, and must fail."""
