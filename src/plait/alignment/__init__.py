"""Private set intersection: which rows all parties hold, without showing the others; see docs/alignment.md.

Public: nothing.  Use `plait align`.
"""
