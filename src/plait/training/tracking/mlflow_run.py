"""Rounds as an MLflow run: the facts become parameters, the fields of a round become metrics."""

import os
from dataclasses import asdict
from typing import Any

from plait.errors import PlaitError, SettingError
from plait.training.history import Round
from plait.training.tracking.tracker import Ending, RunFacts, Tracker, known_fields

_MANNERS = {
    "MLFLOW_ALLOW_FILE_STORE": "true",  # newer versions refuse folders unless told that one is wanted: it was asked for
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # MLflow's 7 hold up a run for minutes when a server is away
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",  # seconds; MLflow waits for 120
}
"""Settings of MLflow that a run needs, where the environment says nothing else."""


class MlflowRun(Tracker):
    """Log a run to MLflow; needs `pip install 'plait[mlflow]'`.

    Parameters
    ----------
    uri : str, default=None
        Where MLflow keeps its runs: a folder as `file:///path`, a server as `http://host:port`, or a database as
        `sqlite:///runs.db`, which needs `pip install mlflow`.  None is MLflow's own default.
    experiment : str, default="plait"
        The experiment that the run belongs to; it is made where there is none of this name.
    """

    def __init__(self, uri: str | None = None, experiment: str = "plait") -> None:
        for name, value in _MANNERS.items():
            os.environ.setdefault(name, value)
        try:
            from mlflow.exceptions import MlflowException
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise PlaitError(
                "tracking with MLflow needs mlflow. Found none. Install it: pip install 'plait[mlflow]'."
            ) from error
        try:
            self._client: Any = MlflowClient(tracking_uri=uri)
        except MlflowException as error:
            raise SettingError(
                "MLflow must be given a folder (file:///path), a server (http://host:port), or a database for which "
                f"`pip install mlflow` was done. Found {uri!r}, of which it says: {str(error)[:300]}"
            ) from error
        self._experiment = experiment
        self._run = ""

    def begin(self, facts: RunFacts) -> None:
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = self._client.create_experiment(self._experiment) if found is None else found.experiment_id
        self._run = self._client.create_run(experiment, run_name=facts.run or None).info.run_id
        for key, value in asdict(facts).items():
            self._client.log_param(self._run, key, ", ".join(value) if isinstance(value, tuple) else value)

    def round(self, record: Round) -> None:
        if self._run:
            for key, value in known_fields(record).items():
                self._client.log_metric(self._run, key, value, step=record.round)

    def end(self, ending: Ending) -> None:
        self._client.set_tag(self._run, "plait.reason", ending.reason)
        self._client.set_tag(self._run, "plait.converged", str(ending.converged))
        self._client.set_terminated(self._run, "FAILED" if ending.failed else "FINISHED")
        self._run = ""
