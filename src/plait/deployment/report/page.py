"""The report of one run at one party: one HTML file that opens without a network, for people who decide."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from plait._files import write_atomically
from plait._version import __version__
from plait.data import preparation
from plait.deployment.consent import listed, protected, revealed
from plait.deployment.disclosure import noted
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.message_log import read_log
from plait.deployment.report.evidence import Evidence
from plait.deployment.report.rendering import render, size
from plait.deployment.report.sections import coefficients, convergence, quality, shown_once
from plait.deployment.run_folder import COORDINATOR, RunFolder
from plait.errors import PlaitError, SettingError
from plait.privacy.ledger.spending import read_spending
from plait.training.tracking.forecast import duration


def write_report(
    folder: RunFolder, job: Job, file: PartyFile, details: dict[str, Any], evidence: tuple[Evidence, ...] = ()
) -> Path:
    """Write report.html into a run folder; `evidence` is about the labels, and only the label party has it."""
    rounds = details.get("rounds", [])
    status = folder.status
    coordinates = status.name == COORDINATOR
    taken, rows = int(details.get("rounds_taken", len(rounds))), int(details.get("rows", 0))
    own = RunFolder(folder.path.parent / file.name)
    page = render(
        "report.html",
        job=job.name,
        party=file.name,
        labelled=file.name == job.label_party,
        owners=listed(job.parties),
        run=status.run,
        started=status.started[:16].replace("T", " "),
        version=__version__,
        loss=type(job.loss).__name__,
        label=file.data.label,
        positive=(file.data.positive or "1") if job.loss.classifies else "",
        encrypted=job.protection is not None,
        rows=rows,
        cards=_cards(details, rounds, taken),
        qualities=[quality(each) for each in evidence],
        training={key: f"{value:.4f}" for key, value in shown_once(details.get("metrics", {})).items()},
        weights=_weights(own, job, file),
        private=job.policy.private,
        guarantee=protected(job),
        spent=_spent(file),
        revealed=revealed(job, file.name, taken, rows) if rows else [],
        metered=_metered(folder.path, "" if coordinates else f"{file.name} "),
        traffic=_traffic(folder.path),
        convergence=convergence(rounds),
        ending=details.get("reason", ""),
        settings=_settings(job),
    )
    path = folder.path / "report.html"
    write_atomically(path, page.encode())
    return path


def _metered(folder: Path, who: str) -> list[str]:
    """What was counted, in sentences; a party's own log leaves out who it is."""
    lines = (f"{who}{line}." for line in noted(folder / "audit.jsonl"))
    return [f"{line[:1].upper()}{line[1:]}" for line in lines]


def _cards(details: dict[str, Any], rounds: list[dict[str, Any]], taken: int) -> list[tuple[str, str]]:
    sent = sum(r["bytes_down"] + r["bytes_up"] for r in rounds)
    cards = [("rows", f"{details['rows']:,}")] if details.get("rows") else []
    cards += [("rounds", f"{taken:,}"), ("time", _time(rounds[-1]["seconds"]) if rounds else "-")]
    cards += [("sent in rounds, all parties", size(sent))]
    return cards


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def _weights(own: RunFolder, job: Job, file: PartyFile) -> dict[str, Any] | None:
    """This party's own part of the model; None where it has none, or it is not kept yet."""
    if not (own.path / "weights.json").exists():
        return None
    columns, weights, *_ = own.weights()
    prepared = preparation.load(own.path) if (own.path / "preparation.json").exists() else None
    return coefficients(columns, weights, job.loss, prepared, file.prepare.dates)


def _spent(file: PartyFile) -> list[str]:
    """The running total of this party's budgets, in words."""
    try:
        ledgers = [each for each in read_spending(file.path(file.privacy.ledger)) if each.party == file.name]
    except SettingError:
        return []  # no ledger: nothing was spent
    except PlaitError as error:
        return [f"What was spent so far cannot be read: {error}"]
    lines = []
    for each in ledgers:
        limit = "no limit was set"
        if each.limit is not None:
            limit = (
                f"the limit is {each.limit:g}, and one more run of {each.left:.3g} fits: runs count less than their sum"
            )
        lines.append(
            f"On table {each.table}, over all runs so far: epsilon {each.epsilon:.3g} at delta {each.delta:g}, in "
            f"{len(each.charges)} releases; {limit}."
        )
    return lines


def _traffic(folder: Path) -> list[tuple[str, str, str]]:
    """What this party itself sent and received, from its audit log: what and with whom, messages, bytes."""
    totals: dict[str, list[int]] = {}
    for entry in read_log(folder / "audit.jsonl"):
        if entry.facts["what"] in ("sent", "received"):
            row = totals.setdefault(f"{entry.facts['what']}, {entry.facts['peer']}", [0, 0])
            row[0] += 1
            row[1] += entry.facts["bytes"]
    return [(who, f"{count:,}", size(total)) for who, (count, total) in totals.items()]


def _settings(job: Job) -> dict[str, str]:
    return {
        "parties": ", ".join(job.parties),
        "coordinator": f"{job.coordinator.name} at {job.coordinator.address}",
        "loss": repr(job.loss),
        **{f"penalty of {name}": repr(p) for name, p in job.penalties.items()},
        "intercept": str(job.intercept),
        "method": repr(job.method),
        **{f"stopping: {k}": str(v) for k, v in asdict(job.stopping).items() if v is not None},
        "job digest": job.digest,
    }
