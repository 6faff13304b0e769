"""The command line: `app` lists the commands, and each group of commands has a module of its own.

Public: nothing.  Use the command `plait`.
"""

from plait.cli.app import main

__all__ = ["main"]
