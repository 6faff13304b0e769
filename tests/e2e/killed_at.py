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
from typing import Any

from plait.cli import main


def arm(target: str, when: str, count: int) -> None:
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, last = path.split(".")
    for name in outer:
        owner = getattr(owner, name)
    original = getattr(owner, last)
    numbers = itertools.count(1)  # one step, even where several threads call at once

    @functools.wraps(original)
    def fatal(*args: Any, **kwargs: Any) -> Any:
        number = next(numbers)
        if number == count and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if number == count and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, last, fatal)


if __name__ == "__main__":
    arm(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.argv = ["plait", *sys.argv[4:]]
    main()
