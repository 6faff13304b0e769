"""ADMM sharing in all its forms: the first half of the paper."""
