"""What the commands demo, parity and privacy compute and draw.

Public: nothing.  Use `plait demo`, `plait parity`, `plait privacy preview`,
`plait privacy attack` and `plait privacy audit`.
"""
