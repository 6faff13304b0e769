"""Runs `plait` and kills it (SIGKILL, by itself) when a named function is called for the n-th time.

    python killed_at.py plait.deployment.journal:Journal.append before 3 party job.toml --name shop

A fault injector around the real program: up to the moment of death it is unchanged.
"""

import functools
import importlib
import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from plait.cli import main


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(target: str, when: str, count: int, act: Callable[[], None] = kill) -> None:
    """Have something done before or after the n-th call of a function."""
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, last = path.split(".")
    for name in outer:
        owner = getattr(owner, name)
    original = getattr(owner, last)
    numbers = itertools.count(1)  # one step, even where several threads call at once

    @functools.wraps(original)
    def counted(*args: Any, **kwargs: Any) -> Any:
        number = next(numbers)
        if number == count and when == "before":
            act()
        result = original(*args, **kwargs)
        if number == count and when == "after":
            act()
        return result

    setattr(owner, last, counted)


if __name__ == "__main__":
    arm(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.argv = ["plait", *sys.argv[4:]]
    main()
