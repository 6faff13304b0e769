"""Private set intersection: which samples all parties share, without showing the others; see docs/alignment.md."""
