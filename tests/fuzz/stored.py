"""Stored JSON whose checksum is right and whose content is not: what a program finds that somebody has written for it.

An input says how the content of a sample is changed: keys removed, values replaced by others of any kind.  The result
is sealed as plait seals its files, so that its reader gets to see it.
"""

import copy
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from plait._files import write_json
from plait._texts import Texts
from plait.alignment.ids import Ids
from plait.alignment.order import Order
from plait.cli.runs import _cells
from plait.data import preparation
from plait.data.preparation import Preparation
from plait.deployment.run_folder import RunFolder, Status, TrainedPart
from plait.deployment.run_keys import UsedMasks, run_secret
from plait.deployment.run_list import list_runs
from plait.deployment.service.tokens import Tokens

RUN = "20260101-120000-0a1b2c"
_ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 70, 1e308, float("nan"), float("inf"), "", "x", "\0", "../..", "\ud800", [], [[]], {},
    {"a": 1}, [None], ["x"], [1.5], "ab" * 32,
)  # fmt: skip


def changed(content: Any, rng: random.Random) -> Any:
    """The content with one to three values removed or replaced, anywhere in it."""
    whole = {"all": json.loads(json.dumps(content))}
    for _ in range(rng.randint(1, 3)):
        within: Any = whole
        key: Any = "all"
        while isinstance(within[key], dict | list) and within[key] and rng.random() < 0.9:
            within = within[key]
            key = rng.choice(list(within)) if isinstance(within, dict) else rng.randrange(len(within))
        if key != "all" and rng.random() < 0.25:
            del within[key]
        else:
            within[key] = copy.deepcopy(rng.choice(_ODD))
    return whole["all"] if isinstance(whole["all"], dict) else {"format": 1}


class StoredFiles:
    """One folder of everything that a run keeps as JSON, and readers of each file."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="plait-fuzz-"))
        self._run = RunFolder(self._root / RUN / "shop")
        self._ids = Ids(Texts.of(["a", "b", "c"]), np.arange(3), 1)
        self._fill()

    def _fill(self) -> None:
        self._run.begin(Status(RUN, "ab" * 32, "shop", "cd" * 32, settings={"model": {"loss": "logistic"}}))
        one = np.ones(2)
        made = Preparation(("x", "y"), one, one, one, {"c": ("u", "v")}, np.inf, 1.0, None, ())
        made.save(self._run.path)
        self._run.write_weights(TrainedPart(("x", "y"), one, None, 0.5, False, True))
        self._run.write_model(0.5, "logistic", ("bank", "shop"), {"rows": 3, "metrics": {"log loss": 0.3, "AUC": 0.8}})
        self._run.write_history([{"round": 1, "objective": 0.5, "gap": None}])
        Order.of(self._ids, [0, 2], {"shop": 3, "coordinator": 3}).save(self._run.path, self._ids)
        run_secret(self._run)
        Tokens(self._tokens).make("crm", 600)
        self._run.release()

    @property
    def _tokens(self) -> Path:
        return self._root / "bank.tokens.json"

    def readers(self) -> dict[Path, Callable[[], object]]:
        """Every file, and what reads it."""
        run, path = self._run, self._run.path
        return {
            path / "run.json": lambda: [_cells(each, each.differences({})) for each in list_runs(self._root, "shop")],
            path / "weights.json": run.weights,
            path / "model.json": run.model,
            path / "history.json": run.history,
            path / "preparation.json": lambda: preparation.load(path),
            path / "alignment.json": lambda: Order.load(path, self._ids),
            run.checkpoint / "protection.json": lambda: run_secret(run),
            self._tokens: lambda: Tokens(self._tokens).clients,
        }

    def read(self, data: bytes) -> object:
        """Change one file as the input says, read it, and put it back."""
        rng = random.Random(data)
        path, reader = rng.choice(list(self.readers().items()))
        before = path.read_bytes()
        content = changed({k: v for k, v in json.loads(before).items() if k != "sha256"}, rng)
        try:
            write_json(path, content)
            return reader()
        except UnicodeEncodeError:
            return None  # a text that no file holds
        finally:
            path.write_bytes(before)

    def read_masks(self, data: bytes) -> object:
        """The list of masks that were used, as bytes."""
        path = self._run.checkpoint / "masks"
        path.write_bytes(data)
        return dict(UsedMasks(path))
