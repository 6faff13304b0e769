"""The subspace method where gradients are encrypted: penalties with kinks are bounded, nothing is asked."""
