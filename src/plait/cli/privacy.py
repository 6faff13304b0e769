"""`plait privacy`: calibrate noise, read ledgers, audit the mechanisms, attack a run, preview what privacy costs."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from plait.errors import SettingError

if TYPE_CHECKING:
    from plait._types import Array
    from plait.studies.privacy_preview import Sample
    from plait.studies.protection_attacks import ModeExposure

app = typer.Typer(
    no_args_is_help=True,
    help="Differential privacy: what it guarantees, what was spent, whether it holds, and what it costs.",
)
_out = Console(markup=False)  # what stands in files is shown as it stands there

Delta = Annotated[
    float,
    typer.Option(
        help="The probability with which the bound may fail. Keep it below 1/N, where N is the number of rows."
    ),
]


@app.command()
def calibrate(
    epsilon: Annotated[float, typer.Option(help="How much a release may reveal: 0.1 is strong, 10 is weak.")] = 1.0,
    delta: Delta = 1e-5,
    rounds: Annotated[int, typer.Option(help="How many releases share this budget.")] = 1,
) -> None:
    """How much noise ROUNDS releases need, in units of their sensitivity, by plait's exact account and by others.

    Example: plait privacy calibrate --epsilon 1 --delta 1e-5 --rounds 10
    """
    from plait.privacy import ExactAccountant, PaperAccountant, RdpAccountant, ZcdpAccountant
    from plait.privacy import calibrate as smallest
    from plait.privacy.mechanisms.wording import short

    title = f"sigma / sensitivity for epsilon = {epsilon:g}, delta = {short(delta)}, {rounds} releases"
    table = _table(title, "account", "noise", "its true epsilon")
    paper, exact = PaperAccountant(), ExactAccountant()
    for accountant, words in ((exact, "exact (plait)"), (RdpAccountant(), "Renyi DP"),
                              (ZcdpAccountant(), "concentrated DP"), (paper, "the paper's corollary")):  # fmt: skip
        noise = smallest(accountant, epsilon, delta, rounds)
        if accountant is paper and paper.step_epsilon(noise, rounds, delta) > 1:
            words += " (outside its theorem)"
        table.add_row(words, f"{noise:#.4g}", f"{exact.epsilon(noise, rounds, delta):#.4g}")
    _out.print(table)


@app.command()
def spend(
    ledger: Annotated[Path, typer.Argument(help="The folder of a party's ledgers, or one ledger's folder below it.")],
    each: Annotated[bool, typer.Option("--each", help="List every charge.")] = False,
) -> None:
    """What was spent and what is left, from the ledgers; damage is an error, because then nobody knows.

    What is left is the epsilon that one more run may cost: more than the limit minus what is spent, as mu^2 adds up.

    Example: plait privacy spend ledgers/
    """
    from plait.privacy.ledger.spending import read_spending
    from plait.privacy.mechanisms.wording import short

    found = read_spending(ledger)
    table = _table(
        "Spent", "party", "table", "epsilon spent", "limit", "left", "delta", "releases", "without guarantee"
    )
    for s in found:
        limit = "none" if s.limit is None else f"{s.limit:g}"
        left = "any" if s.limit is None else f"{s.left:.4g}"
        table.add_row(s.party, s.table, f"{s.epsilon:.4g}", limit, left, short(s.delta), str(len(s.charges)),
                      str(s.unguaranteed))  # fmt: skip
    _out.print(table)
    for s in found if each else ():
        lines = _table(f"Charges of {s.party}, {s.table}", "run", "round", "release", "mu", "noise")
        for c in s.charges:
            mu = "no guarantee" if math.isinf(c.cost.mu) else f"{c.cost.mu:.4g}"
            lines.add_row(c.release.run, str(c.release.round), c.release.name, mu, c.noise)
        _out.print(lines)


@app.command(name="open")
def open_table(
    ledger: Annotated[Path, typer.Argument(help="The folder of a party's ledgers.")],
    table: Annotated[str, typer.Option(help="The name of the new table, as in privacy.table of the party file.")],
    party: Annotated[str, typer.Option(help="The party that holds it.")],
    because: Annotated[str, typer.Option(help="Why these are not the people of the other tables; it is recorded.")],
) -> None:
    """Open the account of another table: an act of the owner, because other people have a budget of their own.

    Example: plait privacy open ledgers/ --table suppliers --party shop --because "companies, not customers"
    """
    from plait.privacy.ledger.known_tables import Tables

    Tables(ledger).open(table, party, because)
    _out.print(f"{ledger} now keeps an account of table {table!r} for party {party!r}.", highlight=False)


@app.command()
def audit(
    full: Annotated[bool, typer.Option("--full", help="Look much longer: minutes instead of seconds.")] = False,
) -> None:
    """Try to prove plait's mechanisms wrong, and check that the same tests catch known faults.

    Every line of the first table must pass and every line of the second must be caught. Passing proves nothing; the
    proof is in docs/privacy/proofs.md.
    """
    from plait.privacy.audit.suite import CHECKS, FULL, MUTANTS, SHORT, Effort

    effort = Effort(FULL if full else SHORT)
    wrong = _mutate()
    for title, checks, expected in (("plait as it is", CHECKS, True), ("plait with a fault put in", MUTANTS, False)):
        table = _table(title, "test", "measured", "at most", "verdict")
        for check in checks:
            finding = check.run(effort)
            verdict = (
                ("passes" if finding.passed else "FAILS") if expected else ("MISSED", "caught")[not finding.passed]
            )
            if finding.passed is not expected:
                wrong.append(check.name)
            table.add_row(check.name, f"{finding.measured:.4g}", f"{finding.allowed:.4g}", verdict)
        _out.print(table)
    if wrong:
        raise SettingError(
            f"the audit must pass what is sound and catch every fault. Found otherwise: {'; '.join(wrong)}. A sound "
            "mechanism fails one game in a hundred by chance: run it again with --full."
        )


def _mutate() -> list[str]:
    """Play the attacks on the shipped code as it is, then with each fault; the names of what went wrong."""
    from plait.studies.privacy_mutations import MUTATIONS, PROBES

    sound = _table("attacks on plait as it is", "attack", "verdict")
    faulty = _table("the same attacks with a fault put into the shipped code", "fault", "verdict")
    wrong = []
    for name, probe in PROBES:
        held = probe()
        sound.add_row(name, "held" if held else "BROKEN")
        wrong += [] if held else [name]
    for mutation in MUTATIONS:
        caught = mutation.caught()
        faulty.add_row(mutation.name, "caught" if caught else "MISSED")
        wrong += [] if caught else [mutation.name]
    _out.print(sound)
    _out.print(faulty)
    return wrong


@app.command()
def wiretap(
    job_file: Annotated[Path, typer.Argument(help="The job file.")],
    name: Annotated[str, typer.Option(help="The private party whose messages were recorded.")],
    run: Annotated[str, typer.Option(help="The run; its newest one by default.")] = "",
) -> None:
    """Say which charge covers each message that a private party sent; an uncovered one is an error.

    The party's file must say trust.record = true before the run.
    """
    from plait.deployment.job_file import read_job, read_party
    from plait.deployment.wiretap import examine

    job, file = read_job(job_file), read_party(job_file, name)
    runs = file.path(file.runs)
    folder = runs / run / name if run else max(runs.glob(f"*/{name}"), default=runs / "none" / name)
    table = _table(f"What {name} sent", "exchange", "numbers", "covered by", "verdict")
    verdicts = examine(job, file, folder)
    for v in verdicts:
        words = "; ".join(v.covered_by) or ("no numbers" if not v.numbers else "earlier releases")
        table.add_row(str(v.seq), str(v.numbers), words, "covered" if v.covered else "NOT COVERED")
    _out.print(table)
    if not all(v.covered for v in verdicts):
        raise SettingError("every message of a private party must be covered by its charges. Found one that is not.")


@app.command()
def attack(
    data: Annotated[str, typer.Option(help="breast-cancer (comes with scikit-learn) or a9a (in PLAIT_DATA).")] = (
        "breast-cancer"
    ),
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("plait-attack"),
) -> None:
    """Attack real runs, unprotected and under each protection, and show what was recovered.

    A helper tries to read the labels off what it receives. The coordinator tries to learn the helper's column space,
    and with 60 known rows to reconstruct all others, from what it receives. A coordinator that does not train
    chooses its broadcasts to read single columns, while the helper keeps more and more of its rules. Last, each
    protection in turn (plain, labels, sums, blind, differential privacy) is attacked with coin-flip labels and 0/1
    columns: least squares for the labels, integer programming for the rows.
    """
    from plait.studies.attack_study import measure, settings
    from plait.studies.figures import pictures_can_be_drawn
    from plait.studies.privacy_figures import draw_exposures, draw_modes

    sample = _sample(data)
    own, helper = sample.train
    found = [measure(s, own, helper, sample.labels) for s in settings(rounds=helper.shape[1] + 10)]
    table = _table(f"What attacks recover: {sample.name}", "protection", "labels", "column space", "rows",
                   "shares sent")  # fmt: skip
    for e in found:
        table.add_row(e.setting, f"{e.labels:.1%}", f"{e.column_space:.1%}", f"{e.records:.1%}", str(e.sent))
    _out.print(table)
    majority = max(sample.labels.mean(), 1 - sample.labels.mean())
    _out.print(f"Always guessing the commoner label is right in {majority:.1%}.", highlight=False)
    _show_chosen(helper)
    modes = _show_modes(own, helper, 2.0 * sample.labels - 1)
    if pictures_can_be_drawn():
        for picture in (draw_exposures(found, output / "attacks.png"), draw_modes(modes, output / "modes.png")):
            _out.print(f"As a picture: {picture}", highlight=False, soft_wrap=True)
    else:
        _out.print("For a picture: pip install 'plait[plots]'", markup=False, highlight=False)


def _show_chosen(helper: "Array") -> None:
    """What a coordinator reads that chooses its broadcasts."""
    from plait.studies.chosen_broadcasts import MOST_COLUMNS, median_of, rules

    headings = ("the helper's penalty and rules", "columns", "column space", "answers", "ended by")
    table = _table("What chosen broadcasts read", *headings)
    count = min(MOST_COLUMNS, helper.shape[1])
    for rule in rules():
        found = median_of(helper, rule)
        by = "the helper" if found.ended else "its limit" if found.answers == rule.rounds else "the attacker"
        table.add_row(rule.name, f"{found.columns} of {count}", f"{found.space:.0%}", str(found.answers), by)
    _out.print(table)


def _show_modes(own: "Array", helper: "Array", y: "Array") -> "list[ModeExposure]":
    """What each mode of protection leaves to a curious side."""
    from plait.studies.protection_attacks import KNOWN_ROWS, MODES, ROUNDS, binary, measure, measure_private, unheard

    half = own.shape[1] // 2
    tables = [binary(table) for table in (helper, own[:, :half], own[:, half:])]
    found = [*(measure(mode, tables, y) for mode in MODES), measure_private(tables, y)]
    headings = ("mode", "coin-flip labels", "as expected", "column space", "rows")
    table = _table(f"What each protection leaves, {ROUNDS} rounds, {KNOWN_ROWS} rows known", *headings)
    for e in found:
        table.add_row(e.mode, *(f"{part:.1%}" for part in (e.labels, e.rule, e.space, e.rows)))
    _out.print(table)
    _out.print(f"Without any message {unheard(tables):.1%} of the rows are guessed.", highlight=False)
    return found


@app.command()
def preview(
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Give it several times; 0.1, 0.5, 1, 3, 8 if not.")
    ] = None,
    delta: Delta = 1e-5,
    data: Annotated[str, typer.Option(help="synthetic, breast-cancer, or a9a (in PLAIT_DATA).")] = "synthetic",
    records: Annotated[
        int,
        typer.Option("--rows", "--records", help="Synthetic rows: as many as your data has, and half as many more."),
    ] = 6000,
    own: Annotated[int, typer.Option(help="Synthetic columns of the label party.")] = 20,
    helper: Annotated[int, typer.Option(help="Synthetic columns of the helper.")] = 20,
    repeats: Annotated[int, typer.Option(help="Trainings per epsilon; the median is shown.")] = 5,
    output: Annotated[Path | None, typer.Option(help="Folder for a picture.")] = None,
) -> None:
    """What privacy would cost in accuracy, by simulation on public or synthetic data: your own data spends nothing.

    Example: plait privacy preview --rows 30000 --own 60 --helper 60 --epsilon 0.5 --epsilon 2
    """
    from plait.studies.privacy_preview import preview as simulate
    from plait.studies.privacy_preview import synthetic

    sample = synthetic(records, own, helper) if data == "synthetic" else _sample(data)
    found = simulate(sample, sorted(epsilon or (0.1, 0.5, 1.0, 3.0, 8.0)), delta, repeats)
    table = _table(f"Log loss on new rows: {found.sample}", "model", "log loss", "of the helper's gain")
    gain = found.local - found.pooled
    table.add_row("without the helper", f"{found.local:.4f}", "0%")
    for value, loss in found.private.items():
        table.add_row(f"private, epsilon = {value:g}", f"{loss:.4f}", f"{(found.local - loss) / gain:.0%}")
    table.add_row("with the helper, unprotected", f"{found.pooled:.4f}", "100%")
    _out.print(table)
    if output is not None:
        from plait.studies.privacy_figures import draw_preview

        _out.print(f"As a picture: {draw_preview(found, output / 'preview.png')}", highlight=False, soft_wrap=True)


def _sample(name: str) -> "Sample":
    from plait.studies.privacy_preview import SAMPLES

    if name not in SAMPLES:
        raise SettingError(f"--data must be one of {', '.join(SAMPLES)}. Found {name!r}.")
    return SAMPLES[name]()


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=box.SIMPLE_HEAD)
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i == 0 else "right")
    return table
