"""Runs described by job files: simulated, as processes on one machine, or on many machines.

Public: nothing.  Use `plait coordinator`, `plait party`, `plait predict` and the other commands.
"""
