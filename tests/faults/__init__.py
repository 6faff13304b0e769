"""Faults times phases times roles: what a machine, a disk, a clock or a network can do to a running job."""
