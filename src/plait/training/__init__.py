"""One run, from a call to the weights: who takes part, the loop, when it ends, what it reports."""
