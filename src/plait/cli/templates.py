"""The files that `plait init` writes."""

import json
from collections.abc import Mapping, Sequence

from plait.data.csv_format import CsvFormat
from plait.data.guess import Guess

PLAIN_CSV = CsvFormat()

JOB = """\
# The job: the same file at every party. It holds nothing private.
format = 1
name = "credit"
parties = {parties}       # who brings columns; lower-case letters, digits and hyphens
protection = {protection} # what is hidden from whom; experimental, see docs/protection.md
                                 # "labels": no party learns a label; the label party sees every party's scores
                                 # "sums": it sees only their sum; needs two parties beside the label party
                                 # "plain": neither, and faster; both owners must accept it in [trust]; for [privacy]

[coordinator]                    # the label party (active party, guest); the others only dial out
name = "{label_party}"                    # its certificate must carry this name
address = "{address}"       # host:port that every party can reach: the one inbound port of the job
patience = 600                   # seconds that a party may be missing before the run ends

{aligned}[alignment]{filled}                    # find the common rows first; without it all files hold the same
{aligned}trim = true{filled}                    # compare ids without white space at their ends,
{aligned}case = "{case}"{filled}                  # {case_reason}
{aligned}unicode = "NFC"{filled}                # in this normal form: "NFC", "NFKC" or "none"
{aligned}min_rows = 100{filled}                 # refuse to go on with fewer common rows
{aligned}max_rows = 100_000_000{filled}         # refuse a party that brings more ids

# [scoring]                      # may change after a training
# join = "list"                  # all are shown the ids of new rows; "private": the common ones are found first
# missing = "refuse"             # where a party lacks a row; "mean": its mean part stands in; "leave out": no score
# address = ""                   # host:port of the label party, where the coordinator is a blind machine

# [report]                       # with three parties or more, and "plain" or "labels"
# partners = true                # then also train the label party with each partner alone: what does each bring?

[model]
loss = "logistic"                # {losses}; options: loss = {{ name = "huber", delta = 1.5 }}
penalty = {{ name = "l2", alpha = 1e-4 }}
                                 # {penalties}; a list adds them
fit_intercept = true
# weighted = true                # the label party's file names a column of row weights; every party is told them
# [model.penalties]              # another penalty for one party
# {other} = {{ name = "l1", alpha = 1e-3 }}

[method]
name = "auto"                    # the one with the fewest rounds; or {methods}, with their options

[stopping]
max_rounds = 200
tol = 1e-6                       # end when the objective is proved to be so close to the optimum, relatively
# max_seconds = 600.0            # whichever comes first
# objective = 0.1
# lyapunov = 1e-8
# guarded = true                 # end a run that diverges with an error

# [fingerprints]                 # keys that must be these, as `plait cert show` prints them
# {other} = "0123 4567 89ab cdef 0123 4567 89ab cdef"

# [privacy]                      # who protects what; every party's own file says what it will spend in all
# parties = {{ {other} = {{ name = "recommended", epsilon = 1.0 }} }}
                                 # {mechanisms}; those not named protect nothing
# labels = {{ name = "randomised-response", epsilon = 2.0 }}      # {label_mechanisms}
# offset = true                  # helpers get each row's score by the unprotected parties; false: only labels
# disjoint = false               # true: no two helpers hold the same signal, which saves a release

[run]
threads = 1                      # BLAS threads per process; the same everywhere, so that the numbers repeat
precision = "float64"            # "float32" sends half the bytes, "int16" a quarter
"""

PARTY = """\
# What {name} keeps to itself: no other party sees this file.
runs = "runs"                    # where run folders go; paths are relative to this file

{data}
[prepare]                        # fitted on these rows only, saved with the weights
impute = "mean"                  # "none" refuses missing numbers; or "median", "zero"
scale = "standard"               # or "minmax", "maxabs" (keeps sparse data sparse), "none", "ranges"
# ranges = {{ orders = [-4, 4] }}  # for "ranges": each column's low and high, known without the data
one_hot = {one_hot}
                                 # columns that become one 0/1 column per value
# categories = {{ region = ["north", "south"] }}      # values of one_hot columns that are known without the data
# transformer = "sklearn.preprocessing:QuantileTransformer"    # one of a fixed list, applied last
# options = {{ n_quantiles = 100 }}
# transform = ["orders"]         # the number columns that it is applied to; empty for all

{dates}
[trust]
min_columns = 2                  # what it sends is made of so many columns or more: fewer would be shown as they are
max_rounds = 1000                # rounds that it answers on these data, over all jobs and runs; 0 for no limit
max_directions = 0               # vectors of its scores that others can read, over all jobs and runs; 0 for no limit
max_alignments = 20              # alignments that it takes part in with these ids, over all runs; 0 for no limit
max_queries = 1000               # scores that it gives per minute; a batch that begins within it is scored to its end
max_scores = 100_000             # scores that it gives of one run, for ever; 0 for no limit
scores_per_id = 10               # how often it scores one id by one run, for ever; 0 for no limit
score_decimals = 3               # digits after the point of every score that leaves it
score_training_rows = false      # true: also score rows that it trained on; never where a guarantee covers them
record = false                   # true: keep every message in full, for `plait privacy wiretap`
max_leverage = 0.5               # with protection: the largest leverage of a row; above it its label could be read
accept_other_sums = false        # with sums: true also joins one that with earlier ones shows a single party's share
accept_other_rows = false        # with protection: true also starts a run that by its few other rows shows labels
{accept}

# [privacy]                      # where the job protects this party's features or labels
# epsilon = 3.0                  # what it will spend on the people in the table; then it takes part in such runs only
# delta = 1e-5
# adjacency = "replace"          # what is counted: a row replaced; "zero-out" is about half as strict
# table = "people"               # the table's name: all its rows, columns and versions have one account
# ledger = "ledgers"             # the ledgers and the secret of the noise: nobody else may read or write there
# ledger_witness = ""            # a folder, best on another disk, that mirrors how far the ledgers have come
# public_weights = false         # true: the column data.weight does not depend on the labels
# test_noise = 0                 # a seed, for tests only: whoever knows it can remove the noise

[network]
certificates = "certs"           # the folder with ca.crt, {name}.crt and {name}.key: see `plait cert`
{listen}

# [cluster]                      # for tables that one machine is too small for
# engine = "ray"                 # actors of a Ray cluster read and hold the table; "none" for this process and its disk
# address = "ray://head:10001"   # the running cluster; empty to start one on this machine
# workers = 0                    # how many actors; 0 for one per core
"""

_ACCEPT = """\
accept_labels_shown = false      # (label party) true: start runs that show every label to the other parties
accept_scores_shown = {accepted:<10} # (others) true: start runs that show the label party its score of every row"""
_NO_LISTEN = 'listen = ""                      # only the coordinator listens'
_LISTEN = 'listen = ""                      # host:port to listen on; empty for all interfaces, at the job\'s port'


def party_file(name: str, labelled: bool, guess: Guess | None, table: str, scores: bool = True) -> str:
    """A party file; `guess` says what is known of its table, whose path is `table` (empty for NAME.csv).

    `scores` says whether the job shows a feature party's scores, which its file then accepts.
    """
    return PARTY.format(
        name=name,
        data=_data_section(name, labelled, guess, table),
        one_hot=_listed(guess.one_hot if guess else ()),
        dates=_dates_section(guess.dates if guess else {}),
        accept=_ACCEPT.format(accepted="true" if scores and not labelled else "false"),
        listen=_LISTEN if labelled else _NO_LISTEN,
    )


def _data_section(name: str, labelled: bool, guess: Guess | None, table: str) -> str:
    guess = guess or Guess(PLAIN_CSV, (), "customer", "default" if labelled else "")
    guessed = "guessed from the file; " if table else ""
    lines = [
        "[data]",
        _line("file", table or f"{name}.csv", "CSV, Parquet or a folder of it, LIBSVM or NumPy"),
        '# source = "select ..."          # instead of a file: a query that DuckDB runs in this folder',
        '# memory = "1.5 GB"              # what this party\'s process may take in all; empty for what is free',
        '# numbers = "float32"            # how the prepared table is stored; "float64" by default',
        '# spool = ""                     # a folder for tables that do not fit into memory',
    ]
    if table.lower().endswith(".csv"):
        lines += [_line(key, value, "as found in the file") for key, value in guess.form.differences.items()]
    lines += [
        _line("id", guess.id, f"{guessed}the column that names the rows, or a list of columns"),
        _line("repeated_ids", "refuse", 'before an alignment; "first" keeps the first row of each id, "drop" none'),
        _line("missing_ids", "refuse", 'before an alignment; "drop" drops rows without an id'),
        _line("label", guess.label, f"{guessed if labelled else ''}the label column (coordinator only)"),
    ]
    if labelled:
        lines.append('# weight = ""                    # a column of row weights, with model.weighted in the job')
        if guess.positive:
            lines.append(_line("positive", guess.positive, f"{guessed}the label that counts as 1"))
    lines.append("columns = []                     # the columns to use; empty for all others")
    reasons = [f"    {_quoted(column)},  # {reason}" for column, reason in guess.drop.items()]
    opened = "drop = [" if reasons else "drop = []"
    lines += [f"{opened:32s} # columns to leave out", *reasons, *(["]"] if reasons else [])]
    lines.append("# " + _line("score", f"{name}-new.csv", "new rows for `plait predict` and `plait evaluate`"))
    if not table:
        lines[-1] = lines[-1].removeprefix("# ")
    return "\n".join(lines) + "\n"


def _dates_section(dates: Mapping[str, str]) -> str:
    """What becomes of the columns of dates; an example where there are none."""
    mark = "" if dates else "# "
    lines = [
        f"{mark}[prepare.dates]",
        "# Each date becomes one number: years since 2000-01-01, of 365.25 days, negative before. An age in years is",
        "# the same with the other sign. Formats: YYYY, MM and DD, and what stands between; a time of day is left out.",
    ]
    comment = "how the dates of this column are written"
    found = [f"{f'{_quoted(name)} = {_quoted(form)}':32s} # as found in the file" for name, form in dates.items()]
    return "\n".join([*lines, *(found or [f"# {_line('birthday', 'DD.MM.YYYY', comment)}"])]) + "\n"


def _line(key: str, value: str, comment: str) -> str:
    return f"{f'{key} = {_quoted(value)}':32s} # {comment}"


def _listed(values: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, values))}]"


def _quoted(text: str) -> str:
    """A TOML string: the escapes of JSON are among those of TOML."""
    return json.dumps(text, ensure_ascii=False)
