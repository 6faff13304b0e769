"""Runs described by job files: simulated, as processes on one machine, or on many machines."""
