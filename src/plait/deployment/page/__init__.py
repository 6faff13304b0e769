"""The live page of a running program."""
