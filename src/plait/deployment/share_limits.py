"""What a party counts, and refuses, before a share leaves it: answers, directions of its columns, too few columns."""

import numpy as np

from plait.deployment.disclosure import party_after, party_before, shows_scores
from plait.deployment.job_file import Job
from plait.deployment.law import Tally, most_exchanges
from plait.deployment.party_privacy import guaranteed
from plait.deployment.party_settings import TrustOptions
from plait.errors import PrivacyError, ProtocolError
from plait.messages import Broadcast, Share
from plait.training.party import Party

_MORE_ROUNDS = (
    "Every round tells the coordinator more about the columns (docs/threat-model.md). If that is wanted, raise "
    "trust.max_rounds in the party file."
)
_MORE_DIRECTIONS = (
    "Each is a vector of this party's scores, a direction of the space of its columns. If more may be shown, raise "
    'trust.max_directions in the party file. With protection = "sums" none is.'
)


class ShareLimits:
    """The limits of one party in one run.

    `tally` counts over all runs.  It is None for a party in the coordinator's process.
    """

    def __init__(
        self, job: Job, party: Party, shape: tuple[int, int], tally: Tally | None, trust: TrustOptions
    ) -> None:
        self._job, self._party, self._tally, self._trust = job, party, tally, trust
        self._columns = shape[1]
        self._least = 0 if tally is None or guaranteed(job, party.name) else trust.min_columns
        """Columns that a share must be made of, where it leaves this process without noise."""
        self._most = most_exchanges(job, party, shape[0])
        self.vectors: set[int] = set()
        """Exchanges in which a vector of scores was sent."""

    @property
    def disclosure(self) -> list[str]:
        """What the run will show of this party, in words and numbers."""
        lines = [] if self._party.shield is None else self._party.shield.lines
        if self._tally is None:
            return lines
        shown, limit = self._tally.spent("directions"), self._trust.max_directions
        return [*lines, *party_before(self._job, self._party.name, self._columns, shown, limit)]

    @property
    def disclosed(self) -> list[str]:
        """What the run has shown of this party, and told it, in words and numbers."""
        if self._tally is None:
            return []
        shield, shown = self._party.shield, self._tally.spent("directions")
        leverage = None if shield is None else shield.leverage
        return party_after(self._job, self._party.name, self._columns, len(self.vectors), shown, leverage)

    def count_answer(self, broadcast: Broadcast, answered: int) -> None:
        """Count one more answer: in this run, where `answered` were given before, and over all runs.

        A repeated answer was counted when it was first given.  A question without a vector is answered by scalars, and
        counts in its run only.
        """
        if answered >= self._most:
            raise ProtocolError(
                f"the job allows {self._most} exchanges in one run. Found one more asked for. Nothing was answered."
            )
        if self._tally is not None and broadcast.vector is not None:
            self._tally.spend("rounds", 1, self._trust.max_rounds, _MORE_ROUNDS)

    def check_share(self, seq: int, share: Share, sent_before: bool) -> None:
        """Count a vector that others can read; beyond a limit, PrivacyError, and it does not leave."""
        if self._tally is not None:
            _need_finite(share)
        self._need_width(share)
        if share.vector is None or self._party.agreeing(seq):
            return
        self.vectors.add(seq)
        if self._tally is not None and shows_scores(self._job, self._party.name) and not sent_before:
            self._tally.spend("directions", 1, self._trust.max_directions, _MORE_DIRECTIONS)

    def _need_width(self, share: Share) -> None:
        """PrivacyError where a share has too few columns: one that is a column times a number shows that column."""
        least = self._least
        if least and share.vector is not None and 0 < (shown := self._party.shown) < least:
            raise PrivacyError(
                f"a share must be made of {least} columns or more (trust.min_columns). Found one of {shown}: it would "
                "show them as they are. Nothing was sent. A weaker L1 penalty keeps more columns. If the coordinator "
                "may see them, lower trust.min_columns in the party file."
            )


def _need_finite(share: Share) -> None:
    """ProtocolError where the coordinator's numbers have led to NaN or infinity: every later answer would be, too."""
    numbers = [array for array in (share.vector, share.scalars) if array is not None and array.dtype.kind == "f"]
    if not all(np.isfinite(array).all() for array in numbers):
        raise ProtocolError(
            "an answer must hold finite numbers. The coordinator's message led to NaN or infinity. Nothing was sent. "
            "Start over with `plait coordinator --fresh`; where it happens again, scale the columns."
        )
