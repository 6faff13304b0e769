"""`plait init`: a commented job file, party files, and example data to try them on."""

import csv
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from plait.cli import templates
from plait.cli.failures import reports_errors
from plait.deployment.job_file import read_job
from plait.deployment.registry import LABEL_MECHANISMS, LOSSES, MECHANISMS, METHODS, PENALTIES
from plait.errors import ConfigError

_PARTIES: tuple[str, ...] = ("bank", "shop")
_LABEL_PARTY = "bank"
_COLUMNS = {"bank": ("income", "age", "balance", "loans"), "shop": ("orders", "returns", "basket")}


@reports_errors
def init(
    folder: Annotated[Path, typer.Argument(help="Where to write; made if it does not exist.")],
    name: Annotated[str, typer.Option(help="Write only this party's files; empty for all.")] = "",
    job: Annotated[Path | None, typer.Option(help="A job file that you were sent, instead of a new one.")] = None,
) -> None:
    """Write a commented job file, party files and example data."""
    parties, label_party = _PARTIES, _LABEL_PARTY
    if job is not None:
        received = read_job(job)
        parties, label_party = received.parties, received.coordinator.name
    chosen = (name,) if name else tuple(dict.fromkeys((*parties, label_party)))
    if name and name not in (*parties, label_party):
        raise ConfigError(f"--name must be one of {', '.join(parties)}. Found {name!r}.")
    text = templates.JOB.format(
        losses=", ".join(LOSSES),
        penalties=", ".join(PENALTIES),
        methods=", ".join(METHODS),
        mechanisms=", ".join(MECHANISMS),
        label_mechanisms=", ".join(LABEL_MECHANISMS),
    )
    place = folder / "job.toml"
    if job is None or place.resolve() != job.resolve():
        _write(place, text if job is None else job.read_text(encoding="utf-8"))
    for party in chosen:
        _write(folder / f"{party}.toml", _party_file(party, party == label_party))
        if party in _COLUMNS:
            _write_example(folder, party, rows=2000, seed=0, suffix="")
            _write_example(folder, party, rows=500, seed=1, suffix="-new")
    typer.echo(f"Wrote {', '.join(sorted(p.name for p in folder.iterdir() if p.is_file()))} in {folder.resolve()}")
    typer.echo(
        f"Try the whole job on this machine: plait fit {folder / 'job.toml'}" if len(chosen) > 1 else _next(chosen)
    )


def _next(chosen: tuple[str, ...]) -> str:
    return f"Next: put your data and columns into {chosen[0]}.toml, then see `plait cert`."


def _party_file(name: str, labels: bool) -> str:
    return templates.PARTY.format(
        name=name,
        label=templates.LABEL if labels else templates.NO_LABEL,
        listen=templates.LISTEN if labels else templates.NO_LISTEN,
        one_hot='"region"' if name == "shop" else "",
    )


def _write(path: Path, text: str) -> None:
    if path.exists():
        raise ConfigError(f"{path} must not exist yet. Found a file there. Choose another folder, or move it away.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _write_example(folder: Path, party: str, rows: int, seed: int, suffix: str) -> None:
    """Made-up customers: bank and shop hold different columns of the same people."""
    rng = np.random.default_rng(seed)
    names = [*_COLUMNS["bank"], *_COLUMNS["shop"]]
    numbers = rng.standard_normal((rows, len(names)))
    regions = rng.choice(["north", "south", "west"], rows)
    score = numbers @ [-1.2, -0.4, -0.8, 0.9, 0.5, 0.7, -0.6] + 0.8 * (regions == "west") - 0.5
    default = (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(int)
    with (folder / f"{party}{suffix}.csv").open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        own = [names.index(column) for column in _COLUMNS[party]]
        out.writerow(["customer", *_COLUMNS[party], "default" if party == "bank" else "region"])
        for i in range(rows):
            values = [f"{numbers[i, j]:.4f}" for j in own]
            out.writerow([f"c{seed}{i:05d}", *values, default[i] if party == "bank" else regions[i]])
