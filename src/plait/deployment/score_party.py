"""A party's side of a joint prediction: it aligns its new rows, where the job says so, and gives its part of scores."""

import signal
import threading

from plait._version import __version__
from plait.alignment.proposal import Consent, agree
from plait.deployment.align_party import ALIGN, OpenAlignment, PartyAlignment
from plait.deployment.consent import check_scoring_consent
from plait.deployment.endpoints import Dial, link
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.law import need_phase
from plait.deployment.masked_scores import masks_scores
from plait.deployment.pairs import A_DAY, more_follows
from plait.deployment.party_privacy import discreet
from plait.deployment.progress import PHASE, Progress
from plait.deployment.run_keys import signing
from plait.deployment.scorer import SERVE, Scorer
from plait.deployment.scorers import Scorers
from plait.errors import ConfigError, PlaitError, TransportError
from plait.privacy.policy import check_covered
from plait.protection.score_masks import ScoreMasks
from plait.transports.handshake import PROTOCOL, Hello, Welcome
from plait.transports.participant import Participant


def help_score(
    job: Job, file: PartyFile, dial: Dial, rows: str, purpose: str, progress: Progress, consent: Consent = agree
) -> None:
    """A party's part in `predict`, or in a prediction service until that ends."""
    check_covered(job.policy.uncovered(job.parties))
    check_scoring_consent(job, file, progress.say)
    side = _PartySide(job, file, new_rows_file(file, rows), purpose, progress, consent, score_masks(job, file, dial))
    connection = link(job, dial, lambda w, **f: progress.event(w, f))
    connection.discreet = discreet(job, file)
    hello = Hello(PROTOCOL, __version__, file.name, job.digest, purpose)
    progress.event(PHASE, {"phase": "waiting"})
    if purpose == SERVE:
        side.refresh_when_told()
    try:
        finished = connection.serve(hello, side.join)
        while finished.ok and (finished.details.get("phase") == ALIGN or more_follows(finished)):
            if more_follows(finished):  # the same rows by the model of the label party with this partner alone
                connection.longest_wait = max(A_DAY, job.coordinator.patience)
            finished = connection.serve(hello, side.join)
    except KeyboardInterrupt:
        if purpose != SERVE:
            raise
        progress.say(f"{file.name}: stopped: from now on the service waits for {file.name}")
        return
    finally:
        side.close()
    if not finished.ok:
        raise TransportError(f"the coordinator ended: {finished.reason}")
    progress.say(f"{file.name}: {finished.reason}")


class _PartySide:
    """What a party opens while it scores: an alignment of its new rows, and its models."""

    def __init__(
        self,
        job: Job,
        file: PartyFile,
        rows: str,
        purpose: str,
        progress: Progress,
        consent: Consent,
        masks: ScoreMasks | None = None,
    ) -> None:
        self._masks = masks
        self._job, self._file, self._rows, self._purpose, self._progress = job, file, rows, purpose, progress
        self._opened: dict[str, Scorer | Scorers] = {}
        self._alignment: PartyAlignment | None = None
        self._joined: OpenAlignment | None = None
        if job.joins_privately:
            self._alignment = PartyAlignment(job, file, consent, progress, rows=rows)
            self._joined = OpenAlignment(self._alignment)

    def join(self, welcome: Welcome) -> Participant:
        """What the coordinator asks for: to be aligned, or to score."""
        need_phase(welcome, self._purpose, *([] if self._joined is None else [ALIGN]))
        if self._joined is not None and welcome.phase == ALIGN:
            return self._joined.join(welcome)
        if self._masks is not None:
            self._masks.join(welcome.key)
        key = welcome.alignment if self._purpose == SERVE else f"{welcome.run} {welcome.key}"
        if key not in self._opened:
            begun = any(isinstance(each, Scorer) and each.begun for each in self._opened.values())
            self.close()
            self._opened[key] = self._open(welcome, begun)
            self._progress.say(
                f"{self._file.name}: {self._opened[key].count} rows of {self._rows} ready, model of run {welcome.run}"
            )
        if self._purpose == SERVE:
            self._opened[key].load(welcome.run, used=welcome.run)
            self._progress.event(PHASE, {"phase": "serving", "run": welcome.run})
        return self._opened[key]

    def _open(self, welcome: Welcome, begun: bool) -> Scorer | Scorers:
        common = None if self._alignment is None else self._alignment.order(welcome.alignment).ids

        def scorer(run: str) -> Scorer:
            made = Scorer(
                self._job, self._file, run, welcome.key, self._rows, self._purpose, common, self._masks, begun
            )
            say_remarks(made, self._file.name, self._progress)
            return made

        if self._purpose != SERVE:
            return scorer(welcome.run)
        return Scorers(scorer, welcome.run, lambda why: self._progress.say(f"{self._file.name}: {why}"))

    def refresh_when_told(self) -> None:
        """Read the rows again at SIGHUP, on a thread of its own; the old ones are used until then."""
        told = threading.Event()
        signal.signal(signal.SIGHUP, lambda number, frame: told.set())

        def work() -> None:
            while told.wait():
                told.clear()
                for scorer in list(self._opened.values()):
                    try:
                        scorer.refresh()
                        self._progress.say(f"{self._file.name}: {scorer.count} rows of {self._rows} read again")
                    except PlaitError as error:
                        self._progress.say(f"{self._file.name}: still the rows of before: {error}")

        threading.Thread(target=work, name="plait-refresh", daemon=True).start()

    def close(self) -> None:
        """Let other programs use the folders."""
        if self._joined is not None:
            self._joined.close()
        for scorer in self._opened.values():
            scorer.close()
        self._opened.clear()


def score_masks(job: Job, file: PartyFile, dial: Dial) -> ScoreMasks | None:
    """What masks this party's parts, under keys that its certificate signs; None where the job masks nothing."""
    if not masks_scores(job):
        return None
    group = [name for name in job.parties if name != job.coordinator.name]
    sign, verify = signing(dial.security, job.fingerprints)
    return ScoreMasks(job.digest, file.name, group, sign, verify)


def new_rows_file(party: PartyFile, rows: str) -> str:
    """The file of a party's new rows."""
    if not (rows or party.data.score):
        raise ConfigError(
            f"{party.name}.toml must name the file of new rows. Found none: set data.score, or give --rows."
        )
    return rows or party.data.score


def say_remarks(scorer: Scorer, party: str, progress: Progress) -> None:
    """Tell the party's owner what is remarkable about its rows."""
    for remark in scorer.remarks:
        progress.say(f"{party}: {remark}")
