"""The command line: `app` has the commands, and each group has a module of its own."""

from plait.cli.app import main

__all__ = ["main"]
