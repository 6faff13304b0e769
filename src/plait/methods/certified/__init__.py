"""The subspace method with a certificate, experimental: every step is exact, and the end is proved."""
