"""Rounds as an MLflow run: the facts become parameters, the fields of a round become metrics."""

from dataclasses import asdict
from typing import Any

from plait.errors import PlaitError
from plait.training.history import Round
from plait.training.tracking.tracker import Ending, RunFacts, Tracker, known_fields


class MlflowRun(Tracker):
    """Log a run to MLflow; needs `pip install 'plait[mlflow]'`.

    Parameters
    ----------
    uri : str, default=None
        Where MLflow keeps its runs: a folder as `file:///path`, or a server as `http://host:port`.  None is MLflow's
        own default.
    experiment : str, default="plait"
        The experiment that the run belongs to; it is made where there is none of this name.
    """

    def __init__(self, uri: str | None = None, experiment: str = "plait") -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise PlaitError(
                "tracking with MLflow needs mlflow. Found none. Install it: pip install 'plait[mlflow]'."
            ) from error
        self._client: Any = MlflowClient(tracking_uri=uri)
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
