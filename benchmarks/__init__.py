"""Benchmarks of plait: one judge, one small file per data set and per solver.  Run `make bench`."""
