"""`plait init`: a commented job file and party files, for your own table or for an example."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from plait._names import check_party
from plait.cli import templates
from plait.data.guess import Guess, guess_columns
from plait.deployment.job_file import read_job
from plait.deployment.job_settings import CoordinatorSpec
from plait.deployment.registry import LABEL_MECHANISMS, LOSSES, MECHANISMS, METHODS, PENALTIES
from plait.errors import ConfigError
from plait.protection.secure_sums import LEAST_GROUP

_EXAMPLE = ("bank", "shop")
_COLUMNS = {"bank": ("income", "age", "balance", "loans"), "shop": ("orders", "returns", "basket")}
_EXAMPLE_GUESS = {
    "bank": Guess(templates.PLAIN_CSV, ("customer", *_COLUMNS["bank"], "default"), "customer", "default"),
    "shop": Guess(templates.PLAIN_CSV, ("customer", *_COLUMNS["shop"], "region"), "customer", one_hot=("region",)),
}


def init(
    folder: Annotated[Path, typer.Argument(help="The folder to write into. It is made if it does not exist.")],
    name: Annotated[str, typer.Option(help="Write only this party's files. By default those of all parties.")] = "",
    job: Annotated[Path | None, typer.Option(help="A job file that you were sent, instead of a new one.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Your table (CSV, Parquet or NumPy): id, label and types are guessed from it.")
    ] = None,
    parties: Annotated[
        str, typer.Option(help="Who brings columns, for a new job: NAME,NAME,... The first holds the labels.")
    ] = "",
    address: Annotated[
        str, typer.Option(help="host:port where the other parties reach the label party, for a new job.")
    ] = CoordinatorSpec.address,
    example: Annotated[bool, typer.Option("--example", help="Also write made-up tables to try the job on.")] = False,
) -> None:
    """Write a commented job file and party files, for your own table or, with --example, for a made-up one.

    No file is ever replaced.  What was guessed from your table stands in the party file, with the reason beside it.
    """
    if job is not None:
        received = read_job(job)
        names, label_party = received.parties, received.coordinator.name
        summed = received.protection is not None and received.protection.mode == "sums"
    else:
        names = tuple(check_party(part.strip()) for part in parties.split(",")) if parties else _EXAMPLE
        label_party = names[0]
        summed = _protection(names) == "sums"
    chosen = (name,) if name else tuple(dict.fromkeys((*names, label_party)))
    _check(names, label_party, name, data, example)
    place = folder / "job.toml"
    guesses = {party: _guess(party, party == label_party, data, example) for party in chosen}
    files: dict[Path, str] = {}
    if job is None:
        files[place] = _job_file(names, address, guesses, data is not None)
    elif place.resolve() != job.resolve():
        files[place] = job.read_text(encoding="utf-8")
    for party, guess in guesses.items():
        labelled, table = party == label_party, _table(folder, data)
        files[folder / f"{party}.toml"] = templates.party_file(party, labelled, guess, table, scores=not summed)
        if example and party in _COLUMNS:
            for seed, suffix in enumerate(("", "-new")):
                files[folder / f"{party}{suffix}.csv"] = _example(party, rows=2000 - 1500 * seed, seed=seed)
    _write_all(files)
    typer.echo(f"Wrote {', '.join(sorted(path.name for path in files))} in {folder.resolve()}")
    typer.echo(_next(folder, chosen, label_party, example, data))


def _check(names: tuple[str, ...], label_party: str, name: str, data: Path | None, example: bool) -> None:
    if len(set(names)) < len(names):
        raise ConfigError(f"--parties must name each party once. Found {', '.join(names)}.")
    if name and name not in (*names, label_party):
        raise ConfigError(f"--name must be one of {', '.join(names)}. Found {name!r}. Name others with --parties.")
    if data is not None and (example or not name):
        raise ConfigError("--data is one party's own table: give --name as well, and no --example.")
    if example and not set(names) <= set(_EXAMPLE):
        raise ConfigError(f"--example knows the parties {', '.join(_EXAMPLE)}. Found {', '.join(names)}.")


def _next(folder: Path, chosen: tuple[str, ...], label_party: str, example: bool, data: Path | None) -> str:
    """What the user does now."""
    certificate = f"`plait cert {'init' if label_party in chosen else 'request'} {chosen[0]}`"
    if example and len(chosen) > 1:
        return f"Try the whole job on this machine: plait fit {folder / 'job.toml'}"
    if example:
        return f"The table is made up, and {chosen[0]}.toml is ready for it. Next: {certificate}."
    if data is not None:
        return f"Next: read the guesses in {chosen[0]}.toml, then type {certificate}; before a run `plait doctor`."
    files = ", ".join(f"{party}.toml" for party in chosen)
    return f"Next: put your data and columns into {files}, then type {certificate}."


def _job_file(names: tuple[str, ...], address: str, guesses: Mapping[str, Guess | None], aligned: bool) -> str:
    """A new job; `aligned` where the parties' own tables will hardly hold the same rows in the same order."""
    CoordinatorSpec(names[0], address)  # refuses what is no address
    folded = any(guess is not None and guess.folded for guess in guesses.values())
    return templates.JOB.format(
        aligned="" if aligned else "# ",
        filled="  " if aligned else "",
        case="fold" if folded else "keep",
        case_reason='guessed: some ids are in capitals, others in small letters; "keep" tells them apart,'
        if folded
        else '"fold": without regard to upper and lower case,',
        parties=json.dumps(list(names)),
        protection=f'"{_protection(names)}"'.ljust(19),  # as far as the other comments stand
        label_party=names[0],
        address=address,
        other=names[-1],
        losses=", ".join(LOSSES),
        penalties=", ".join(PENALTIES),
        methods=", ".join(METHODS),
        mechanisms=", ".join(MECHANISMS),
        label_mechanisms=", ".join(LABEL_MECHANISMS),
    )


def _protection(names: tuple[str, ...]) -> str:
    """What a new job hides: with two organisations a sum would hide nothing."""
    return "sums" if len(names) >= LEAST_GROUP else "labels"


def _guess(party: str, labelled: bool, data: Path | None, example: bool) -> Guess | None:
    if data is not None:
        return guess_columns(data, labelled)
    return _EXAMPLE_GUESS.get(party) if example else None


def _table(folder: Path, data: Path | None) -> str:
    """The path of the table as the party file says it: relative to the file where that is possible."""
    if data is None:
        return ""
    if data.resolve().is_relative_to(folder.resolve()):
        return data.resolve().relative_to(folder.resolve()).as_posix()
    return data.resolve().as_posix()


def _write_all(files: dict[Path, str]) -> None:
    """Write all of these files or none: a file that exists is never replaced."""
    for path in files:
        if path.exists():
            raise ConfigError(f"{path} must not exist yet. Found a file there. Choose another folder, or move it away.")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)


def _example(party: str, rows: int, seed: int) -> str:
    """Made-up customers: bank and shop hold different columns of the same people."""
    rng = np.random.default_rng(seed)
    names = [*_COLUMNS["bank"], *_COLUMNS["shop"]]
    numbers = rng.standard_normal((rows, len(names)))
    regions = rng.choice(["north", "south", "west"], rows)
    score = numbers @ [-1.2, -0.4, -0.8, 0.9, 0.5, 0.7, -0.6] + 0.8 * (regions == "west") - 0.5
    default = (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(int)
    text = io.StringIO(newline="")
    out = csv.writer(text)
    own = [names.index(column) for column in _COLUMNS[party]]
    out.writerow(["customer", *_COLUMNS[party], "default" if party == "bank" else "region"])
    for i in range(rows):
        values = [f"{numbers[i, j]:.4f}" for j in own]
        out.writerow([f"c{seed}{i:05d}", *values, default[i] if party == "bank" else regions[i]])
    return text.getvalue()
