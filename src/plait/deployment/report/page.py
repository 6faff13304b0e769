"""The report of one run at one party: one HTML file that opens without a network."""

import html
import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from plait._files import write_atomically
from plait._version import __version__
from plait.deployment.job_file import Job
from plait.deployment.message_log import read_log
from plait.deployment.report.chart import line_chart

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
td,th{padding:.25rem .6rem;border-bottom:1px solid #e3e6ea;text-align:left;font-variant-numeric:tabular-nums}
.cards{display:flex;flex-wrap:wrap;gap:.8rem}.card{border:1px solid #e3e6ea;border-radius:6px;padding:.6rem 1rem}
.card b{display:block;font-size:1.2rem}.quiet{color:#667}svg{max-width:100%}
@media(prefers-color-scheme:dark){body{background:#15181c;color:#dde}td,th,.card{border-color:#333a42}}
"""


def write_report(folder: Path, job: Job, details: dict[str, Any]) -> Path:
    """Write report.html into a run folder."""
    rounds = details.get("rounds", [])
    status = json.loads((folder / "run.json").read_text())
    began = _text(status["started"][:19])
    body = [
        f"<h1>plait: {_text(job.name)}, {_text(status['name'])}</h1>",
        f"<p class=quiet>run {_text(status['run'])}, plait {__version__}, started {began} UTC</p>",
        _cards(details, rounds),
        _convergence(rounds),
        _metrics("Metrics, training rows", details.get("metrics", {})),
        _metrics("Metrics, new rows", details.get("new_metrics", {})),
        _privacy(job),
        _traffic(folder),
        _settings(job),
    ]
    page = f"<!doctype html><html lang=en><meta charset=utf-8><title>plait: {_text(job.name)}</title>"
    page += f"<style>{_STYLE}</style><body>{''.join(body)}</body></html>\n"
    path = folder / "report.html"
    write_atomically(path, page.encode())
    return path


def _cards(details: dict[str, Any], rounds: list[dict[str, Any]]) -> str:
    sent = sum(r["bytes_down"] + r["bytes_up"] for r in rounds)
    cards = [
        ("rounds", str(details.get("rounds_taken", len(rounds)))),
        ("objective", f"{details['objective']:.6g}" if details.get("objective") is not None else "-"),
        ("ended because", str(details.get("reason", "-"))),
        ("seconds", f"{rounds[-1]['seconds']:.2f}" if rounds else "-"),
        ("traffic, all parties", f"{sent / 1e6:.2f} MB"),
    ]
    shown = "".join(f"<div class=card><span class=quiet>{_text(k)}</span><b>{_text(v)}</b></div>" for k, v in cards)
    return f"<div class=cards>{shown}</div>"


def _convergence(rounds: list[dict[str, Any]]) -> str:
    def series(key: str) -> list[tuple[float, float]]:
        return [(r["round"], r[key]) for r in rounds if r[key] is not None]

    residuals = {name: series(key) for name, key in [("primal", "primal"), ("dual", "dual"), ("Lyapunov", "lyapunov")]}
    return (
        "<h2>Convergence</h2>"
        + line_chart("objective", {"objective": series("objective")})
        + line_chart("residuals", residuals, logarithmic=True)
        + line_chart("seconds since the start", {"seconds": series("seconds")})
    )


def _metrics(title: str, metrics: dict[str, Any]) -> str:
    return f"<h2>{title}</h2>{_table(metrics)}" if metrics else ""


def _privacy(job: Job) -> str:
    lines = "".join(f"<li>{_text(line)}</li>" for line in job.policy.guarantee(job.parties).splitlines())
    return f"<h2>Privacy</h2><ul>{lines}</ul>"


def _traffic(folder: Path) -> str:
    """What this party itself sent and received, from its audit log."""
    totals: dict[str, list[int]] = {}
    for entry in read_log(folder / "audit.jsonl"):
        if entry.facts["what"] in ("sent", "received"):
            row = totals.setdefault(f"{entry.facts['what']}, {entry.facts['peer']}", [0, 0])
            row[0] += 1
            row[1] += entry.facts["bytes"]
    rows = {who: f"{count} messages, {size / 1e6:.3f} MB" for who, (count, size) in totals.items()}
    return f"<h2>What this party sent and received</h2>{_table(rows)}<p class=quiet>Every message: audit.jsonl.</p>"


def _settings(job: Job) -> str:
    rows = {
        "parties": ", ".join(job.parties),
        "coordinator": f"{job.coordinator.name} at {job.coordinator.address}",
        "loss": repr(job.loss),
        **{f"penalty of {name}": repr(p) for name, p in job.penalties.items()},
        "intercept": str(job.intercept),
        "method": repr(job.method),
        **{f"stopping: {k}": str(v) for k, v in asdict(job.stopping).items() if is_dataclass(job.stopping)},
        "job digest": job.digest,
    }
    return f"<h2>Settings</h2>{_table(rows)}"


def _table(rows: dict[str, Any]) -> str:
    cells = "".join(f"<tr><th>{_text(k)}</th><td>{_text(_shown(v))}</td></tr>" for k, v in rows.items())
    return f"<table>{cells}</table>"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _text(value: Any) -> str:
    return html.escape(str(value))
