"""`--track`: which tracker a word on the command line stands for."""

from collections.abc import Callable, Mapping
from pathlib import Path

from plait.errors import SettingError
from plait.training.tracking import CsvFile, EventFile, JsonLinesFile, MlflowRun, PrometheusFile, Tracker

_FILES: Mapping[str, Callable[[Path], Tracker]] = {".jsonl": JsonLinesFile, ".csv": CsvFile, ".prom": PrometheusFile}
_PLACES: Mapping[str, Callable[[str], Tracker]] = {
    "tensorboard": EventFile,
    "mlflow": lambda uri: MlflowRun(uri or None),
}


def tracker_of(text: str) -> Tracker:
    """The tracker for a file by its ending, or for `tensorboard:FOLDER` and `mlflow:URI`."""
    kind, colon, place = text.partition(":")
    if colon and kind in _PLACES:
        return _PLACES[kind](place)
    if (made := _FILES.get(Path(text).suffix)) is not None:
        return made(Path(text))
    raise SettingError(
        "--track must be a file that ends in .jsonl, .csv or .prom, or tensorboard:FOLDER, or mlflow:URI. "
        f"Found {text!r}."
    )
