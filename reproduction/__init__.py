"""The paper's experiments run anew: figures, claims and what lies beyond them, in one report."""
