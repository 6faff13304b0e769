"""Trackers: objects that are told how a run goes, round by round, and keep it for people and other tools.

Give them to `plait.fit(callbacks=[...])`, or to a program with `--track`.  Every tracker is told three things: what
is known before round 1, each round as it ends, and how the run ended.
"""

from plait.training.tracking.csv_file import CsvFile
from plait.training.tracking.event_file import EventFile
from plait.training.tracking.forecast import Forecast, Forecaster
from plait.training.tracking.json_lines import JsonLinesFile
from plait.training.tracking.mlflow_run import MlflowRun
from plait.training.tracking.prometheus import PrometheusFile
from plait.training.tracking.tracker import Ending, RunFacts, Tracker

__all__ = [
    "CsvFile",
    "Ending",
    "EventFile",
    "Forecast",
    "Forecaster",
    "JsonLinesFile",
    "MlflowRun",
    "PrometheusFile",
    "RunFacts",
    "Tracker",
]
