"""A party's side of scoring: its part D_m x_m of new rows, within its limits."""

from collections.abc import Sequence
from itertools import chain, islice
from typing import cast

import numpy as np
from numpy.typing import NDArray

from plait._names import check_run
from plait._types import Array
from plait.alignment.ids import normal_id
from plait.data import preparation
from plait.data.texts import keyed_digest
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.law import PREDICTION, SERVICE
from plait.deployment.local_data import Rows, prepare_rows, read_new_rows
from plait.deployment.message_log import AuditLog
from plait.deployment.part_scores import PartScores, need_same_job, need_sendable, rows_of_ids
from plait.deployment.party_privacy import guaranteed, need_protected_weights
from plait.deployment.party_settings import TrustOptions
from plait.deployment.run_folder import RunFolder
from plait.deployment.score_limits import ScoreLimits
from plait.deployment.trained_rows import trained_rows
from plait.errors import InputError, ProtocolError, StorageError
from plait.messages import Broadcast, Share
from plait.privacy.policy import check_covered
from plait.problem.features import clip_rows
from plait.protection.score_masks import ScoreMasks
from plait.protection.secure_sums import WIDE
from plait.transports.handshake import Finished, Query, Ready
from plait.transports.law import LIMIT_REACHED, MASKED_WORDS, MEETING_OVER, NOT_SCORED, SCORED
from plait.transports.participant import AnswersNothing

assert MASKED_WORDS == WIDE  # the law counts the words that are sent

PREDICT, SERVE = "predict", "serve"


class Scorer(AnswersNothing):
    """A party's trained part and the rows that it was given for scoring: answers with D_m x_m, never with D_m or x_m.

    Scores are releases.  A row that was trained on is scored only where the party's file says so, and never where a
    guarantee covers it.  The party rounds its parts.  Each id and each run have a limit, which services and batches
    share.

    Parameters
    ----------
    job, file : Job, PartyFile
    run, key : str
        The run whose model scores, and the key under which the ids are compared.
    rows_file : str
        The party's new rows.
    purpose : str, default="predict"
        A batch, or a service ("serve").
    common : sequence of str, default=None
        The ids of the rows that all parties hold, where they were joined privately: no other row is scored.
    masks : ScoreMasks, default=None
        What masks the parts before they are sent; None where the job masks nothing.
    begun : bool, default=False
        Whether this goes on with a batch that another model has begun.
    """

    def __init__(
        self,
        job: Job,
        file: PartyFile,
        run: str,
        key: str,
        rows_file: str,
        purpose: str = PREDICT,
        common: Sequence[str] | None = None,
        masks: ScoreMasks | None = None,
        begun: bool = False,
    ) -> None:
        self._masks = masks
        self.agreement = SERVICE if purpose == SERVE else PREDICTION
        check_covered([n for n in job.policy.uncovered(job.parties) if n == file.name])
        folder = RunFolder(file.path(file.runs) / check_run(run) / file.name)
        if not (folder.path / "weights.json").exists():
            raise StorageError(f"{folder.path} must hold what {file.name!r} trained. Found no weights. Train first.")
        need_same_job(job, file.name, folder)
        self._job, self._file, self._rows_file, self._common = job, file, rows_file, common
        self._run = run
        self._rules, self._width = job.alignment, len(file.data.id)
        self._folder = folder
        *_, mean, guarded, covered = folder.weights()
        check_covered([] if covered else [file.name])
        need_protected_weights(job, file, guarded)
        self._private = guarded or guaranteed(job, file.name)
        self._parts = self._read()
        shows_mean = job.scoring.missing == "mean" and not self._private
        self._mean = round(mean, file.trust.score_decimals) if shows_mean else 0.0
        self._ids = keyed_digest(self.rows.ids, bytes.fromhex(key))
        self._limits = ScoreLimits.of(file, purpose == PREDICT, begun)
        folder.lock()  # one process writes here: a second one would break the sealed log
        try:
            self._audit = AuditLog(folder.path / "audit.jsonl")
        except StorageError:
            folder.release()
            raise

    def _read(self) -> "PartScores":
        """The party's part of every row in its file, as the file is now."""
        file, name = self._file, self._rows_file
        columns, weights, clip, *_ = self._folder.weights()
        table = read_new_rows(self._job, file, name).table
        table = table if self._common is None else rows_of_ids(file, table, self._common)
        rows = prepare_rows(file, table, preparation.load(self._folder.path))
        if rows.columns != columns:
            raise InputError(f"{file.name!r} must bring the columns it was trained on. Found others in {name}.")
        part = np.round(clip_rows(rows.matrix, clip) @ weights, file.trust.score_decimals)
        need_sendable(rows.ids, part, name)
        given = ~trained_rows(self._job, file, rows, self._private)
        return PartScores(rows, part, given, {text: i for i, text in enumerate(rows.ids)})

    def refresh(self) -> None:
        """Read the rows again: the file has changed.  Queries under way use the old rows or the new."""
        self._parts = self._read()
        self._audit.note("rows read again", rows=self.count)

    @property
    def rows(self) -> Rows:
        """The rows that can be scored."""
        return self._parts.rows

    @property
    def begun(self) -> bool:
        """Whether the first query of this batch has fitted into its minute."""
        return self._limits.begun

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences for the party's owner about its rows."""
        remarks = list(self.rows.remarks)
        if self.agreement is SERVICE and (self._file.trust.scores_per_id or self._file.trust.max_scores):
            remarks.append(_limits(self._file.trust))
        if left_out := int((~self._parts.given).sum()):
            remedy = "" if self._private else " trust.score_training_rows = true would score them."
            there = f"{left_out} of {self.count} rows in {self._rows_file}"
            remarks.append(f"{there} were trained on, and are not scored.{remedy}")
        return tuple(remarks)

    @property
    def ready(self) -> Ready:
        return Ready(len(self.rows.ids), self._ids, 0)

    @property
    def count(self) -> int:
        """How many rows there are to score."""
        return len(self.rows.ids)

    def answer(self, seq: int, broadcast: Broadcast, before: int | None = None) -> Share:
        raise ProtocolError("scores are asked for by id. Found a request for all rows. Nothing was scored.")

    def look_up(self, queries: Sequence[Query]) -> list[Share]:
        """For each query the parts of its ids, and a mark for each: 0 for a score, 1 for none here, for any reason.

        In the place of a part that is not there stands 0, or the mean part where the job says so.
        """
        if self._common is None and self._job.joins_privately:
            raise ProtocolError(
                "the parties have agreed on a private join. Found a query before it. Nothing was scored."
            )
        for query in queries:
            self._need_masked(query)
        asked = [self._requests(query) for query in queries]
        taken = self._limits.take(self._run, *chain.from_iterable(asked))
        each = iter(taken)
        plain = [self._looked_up(requests, list(islice(each, len(requests)))) for requests in asked]
        shares = [self._masked(query, share) for query, share in zip(queries, plain, strict=True)]
        given = sum(int((share.scalars == SCORED).sum()) for share in shares)
        facts = {"rows": given, "queries": len(taken), "refused": sum(found is None for found in taken)}
        if given:
            self._audit.note("scored", **facts)
        else:
            self._audit.note_some("scored nothing", **facts)
        return shares

    def _need_masked(self, query: Query) -> None:
        if bool(query.meeting) != (self._masks is not None):
            found = "one without" if self._masks is not None else "one"
            raise ProtocolError(
                f'a query must be under masks where the job has protection = "sums", and only there. Found {found}. '
                "Nothing was scored. The coordinator has another job file, or is not honest."
            )

    def _masked(self, query: Query, share: Share) -> Share:
        """The share as it leaves: its parts masked, its marks as they are."""
        if self._masks is None:
            return share
        assert share.vector is not None
        words = np.zeros(WIDE * len(query.ids), dtype=np.uint64)
        if not (share.scalars == LIMIT_REACHED).any():  # then nothing is given, and nothing is masked
            masked = self._masks.mask(
                query.meeting, query.number, self._run, query.ids, share.vector, share.scalars == SCORED
            )
            if masked is None:
                return Share(0, cast(Array, words), np.full(len(query.ids), MEETING_OVER))
            words = masked
        return Share(0, cast(Array, words), share.scalars)

    def meet(self, keys: Sequence[str]) -> list[str]:
        """A new masking key where none are given; else use these."""
        if self._masks is None:
            raise ProtocolError(
                'masking keys go with protection = "sums". Found a request for one in another job. Nothing was scored.'
            )
        self._audit.note_some("the parties met" if keys else "masking key made")
        return self._masks.answer(keys)

    def _looked_up(self, requests: Sequence[list[str]], taken: Sequence[NDArray[np.bool_] | None]) -> Share:
        """The parts of the ids of these requests in a row; `taken` is what the limits say of each request."""
        parts, counts = self._parts, [len(ids) for ids in requests]
        at = np.array([parts.place.get(name, -1) for name in chain.from_iterable(requests)])
        limited = np.repeat([allowed is None for allowed in taken], counts)
        nothing = (np.zeros(count, dtype=np.bool_) for count in counts)
        allowed = np.concatenate([none if found is None else found for found, none in zip(taken, nothing, strict=True)])
        given = (at >= 0) & allowed & parts.given[at]
        part = np.where(given, parts.part[at], np.where(limited, 0.0, self._mean))
        return Share(0, part, np.where(limited, LIMIT_REACHED, np.where(given, SCORED, NOT_SCORED)))

    def _requests(self, query: Query) -> list[list[str]]:
        """The ids of each request that a query joins, as the rules of the job write them."""
        ids = map(self._normal, query.ids)
        return [list(islice(ids, count)) for count in query.requests or [len(query.ids)]]

    def _normal(self, text: str) -> str:
        """An id as the rules of the job write it: what is one id there is counted as one."""
        return text if self._rules is None else normal_id(text, self._width, self._rules)

    def load(self, run: str, used: str) -> None:
        raise ProtocolError(f"a batch is of one run. Found a request for run {run}.")

    def finish(self, finished: Finished) -> None:
        self._audit.note("finished", ok=finished.ok, reason=finished.reason)

    def close(self) -> None:
        """Let another program use the folder."""
        self._limits.close()
        self._audit.close()
        self._folder.release()


def _limits(trust: TrustOptions) -> str:
    """When a party stops to answer a service, for its owner."""
    each = f"each id has {trust.scores_per_id} scores" if trust.scores_per_id else "an id has any number of scores"
    all_ = f"all ids together {trust.max_scores:,}" if trust.max_scores else "all ids together any number"
    return f"{each} by this run, {all_}; an id beyond that counts as missing (trust.scores_per_id, trust.max_scores)"
