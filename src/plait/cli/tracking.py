"""`--track`: which tracker a word on the command line stands for."""

from collections.abc import Callable, Mapping
from pathlib import Path

from plait._files import need_own_file
from plait.errors import SettingError
from plait.training.tracking import CsvFile, EventFile, JsonLinesFile, MlflowRun, PrometheusFile, Tracker

_FILES: Mapping[str, tuple[Callable[[Path], Tracker], str]] = {
    ".jsonl": (JsonLinesFile, '{"time": '),
    ".csv": (CsvFile, "round,objective,"),
    ".prom": (PrometheusFile, "# HELP plait_training_"),
}
"""For each ending the tracker, and how its files begin."""
_PLACES: Mapping[str, Callable[[str], Tracker]] = {
    "tensorboard": EventFile,
    "mlflow": lambda uri: MlflowRun(uri or None),
}


def tracker_of(text: str) -> Tracker:
    """The tracker for a file by its ending, or for `tensorboard:FOLDER` and `mlflow:URI`."""
    kind, colon, place = text.partition(":")
    if colon and kind in _PLACES:
        return _PLACES[kind](place)
    if (found := _FILES.get(Path(text).suffix)) is not None:
        made, beginning = found
        need_own_file(Path(text), beginning)
        return made(Path(text))
    raise SettingError(
        "--track must be a file that ends in .jsonl, .csv or .prom, or tensorboard:FOLDER, or mlflow:URI. "
        f"Found {text!r}."
    )
