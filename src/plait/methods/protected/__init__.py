"""The subspace method where gradients are encrypted: a party receives D^T g, and guesses what g would have shown."""
