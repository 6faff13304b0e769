"""A sweep over losses, penalties, constraints, tables and splits, each answer judged from its weights alone."""
