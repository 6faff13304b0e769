"""What a deployed run shows to others without protection, and whether each party accepts that for its own data."""

from collections.abc import Callable, Iterator, Sequence

from plait.deployment.job_file import Job, PartyFile
from plait.deployment.pairs import partners
from plait.deployment.party_privacy import guaranteed, mechanism_of
from plait.errors import PrivacyError
from plait.privacy.mechanisms.base import Schedule
from plait.training.protected import summed_groups


def shown(job: Job, file: PartyFile) -> Iterator[tuple[str, str]]:
    """Each thing that this party would show, as the option of its file that accepts it and a sentence.

    The option is empty where nothing has to be accepted.
    """
    mode = "plain" if job.protection is None else job.protection.mode
    label_party = job.label_party
    others = listed([name for name in job.parties if name != label_party])
    if mode == "blind":
        if file.name in job.parties:
            other = next(name for name in job.parties if name != file.name)
            yield "", _BLIND.format(other=other, machine=job.coordinator.name)
        return
    if file.name == label_party and others and mode != "plain":
        yield "", _MOMENTS.format(others=others)
    elif file.name == label_party and others and job.policy.labels is None:
        yield "accept_labels_shown", f"this run shows every label to {others}, from the first round on"
    if file.name not in job.parties or file.name == label_party or guaranteed(job, file.name):
        return
    if mode == "sums":
        yield "", _SUMS.format(name=file.name, label=label_party, groups=_groups(job, file.name))
    else:
        reads = _READS if mode == "labels" else ""
        yield (
            "accept_scores_shown",
            f"this run shows {file.name}'s part of the score of every row to {label_party}, in every round{reads}",
        )


def _pairs(job: Job, name: str) -> Iterator[str]:
    """What the runs of the label party with one partner, for its report, show besides."""
    others, label_party = partners(job), job.label_party
    if name == label_party and others and job.protection is None:
        alone = "for the report, this run is followed by one with each partner alone"
        yield f"{alone}: {listed(others)} can then read {name}'s part"
    elif name in others:
        again = f"for the report of {label_party} ([report] in the job), this run is followed by one of {label_party}"
        yield f"{again} and {name} alone, which shows as much again and counts against the same limits"


_MOMENTS = (
    "this run hides the labels (experimental, see docs/protection.md). In every round {others} can learn D^T g, one "
    "sum over all rows for each column, and nothing else of them"
)
_SUMS = (
    "this run hides {name}'s scores (experimental, see docs/protection.md): {label} learns sums over {groups}, and "
    "once {name}'s columns, encrypted under a key that {name} keeps"
)
_BLIND = (
    "this run hides whose labels and scores they are (experimental, see docs/protection.md): {machine} sees them under "
    "random signs, which it can mostly find out, in a random order that it does not know. {other} learns D^T g of its "
    "own columns. All of this holds only while whoever runs {machine} tells neither party what it sees"
)
_READS = (
    ". Few rounds do not protect 0/1 columns: who knows 60 of the rows can read most others after four rounds. Three "
    'organisations can hide the scores, too: protection = "sums"'
)


def _groups(job: Job, name: str) -> str:
    assert job.protection is not None
    group = next(each for each in summed_groups(job.protection, job.parties) if name in each)
    return listed(group)


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def check_consent(job: Job, file: PartyFile, say: Callable[[str], None]) -> None:
    """Say what will be shown; PrivacyError unless the party's own file accepts all of it."""
    besides = [("", sentence) for sentence in _pairs(job, file.name)]
    for option, sentence in [*shown(job, file), *besides]:
        say(f"{file.name}: {sentence}")
        if option and not getattr(file.trust, option):
            raise PrivacyError(
                f"what a party shows unprotected must be accepted in its own file. Found that {sentence}, and no "
                f"trust.{option} = true in {file.name}.toml. Accept it there, or ask for a job with more protection, "
                "or with [privacy]."
            )


def check_scoring_consent(job: Job, file: PartyFile, say: Callable[[str], None]) -> None:
    """Say what a prediction of a protected job shows; PrivacyError unless the party's own file accepts it."""
    if job.protection is None or file.name == job.coordinator.name:
        return
    label_party = job.coordinator.name
    if job.protection.mode == "sums":
        outside = listed([name for name in job.parties if name != label_party])
        say(
            f"{file.name}: a prediction hides {file.name}'s part of every score (experimental, see docs/protection.md)"
            f": {label_party} learns the sum of the parts of {outside}, and who has no part of a row"
        )
        return
    sentence = f"a prediction shows {file.name}'s part of the score of every new row to {label_party}"
    if file.name in partners(job):
        sentence += ", and `plait evaluate` also that by the model of these two alone"
    say(f'{file.name}: {sentence}. Three organisations can hide it: protection = "sums"')
    if not file.trust.accept_scores_shown:
        raise PrivacyError(
            f"what a party shows unprotected must be accepted in its own file. Found that {sentence}, and no "
            f"trust.accept_scores_shown = true in {file.name}.toml. Accept it there, or do not take part."
        )


def protected(job: Job) -> list[str]:
    """What protects whom in this run, in words: by noise, by encryption, or not at all."""
    mode = "plain" if job.protection is None else job.protection.mode
    by_noise = ["Differential privacy: none in this run."]
    if job.policy.private:
        by_noise = job.policy.guarantee(job.parties).splitlines()
    return [*by_noise, *_PROTECTED[mode]]


_PROTECTED = {
    "plain": ("Encryption: between the machines only. Each party reads what it is sent.",),
    "labels": ("Labels: encrypted. The other parties learn sums over all rows (experimental).",),
    "sums": (
        "Labels: encrypted. The other parties learn sums over all rows (experimental).",
        "Scores of the parties: masked. The label party reads their sums only (experimental).",
    ),
    "blind": ("Labels and scores: under random signs in a random order, at a blind machine (experimental).",),
}


def revealed(job: Job, name: str, rounds: int, rows: int) -> list[str]:
    """Sentences: what others have learnt from party `name`, and it from them, after `rounds` rounds on `rows` rows."""
    label_party = job.coordinator.name
    mode = "plain" if job.protection is None else job.protection.mode
    if not rounds:
        return ["Nothing yet: no round has ended."]
    many = "one vector" if rounds == 1 else f"{rounds} vectors"
    vectors = f"{many} of {rows:,} numbers"
    helpers = [party for party in job.parties if party != label_party]
    said = []
    if mode == "blind":
        machine = job.coordinator.name
        said.append(f"Each party has sent {vectors} to {machine}, shuffled, under random signs and masks.")
        said.append(f"{machine} has read their sums, and the labels, shuffled and under the same signs.")
        said.append("Each party has learnt D^T g of every round: one sum over all rows for each of its own columns.")
    elif name == label_party:
        for party in helpers if mode != "sums" else ():
            said.append(f"{party} has sent {_sent(job, party, vectors)}.")
        labels = job.policy.labels
        if mode == "sums":
            said.append(f"The parties have sent {vectors} each, masked: only the sums can be read.")
        if helpers:
            seen = "can read every label from what was sent"
            if mode != "plain":
                seen = (
                    "learnt D^T g of every round, one sum over all rows for each column, and nothing else of the labels"
                )
            elif labels is not None:
                seen = f"saw noisy labels: {labels.sentence}"
            said.append(f"{listed(helpers)} {seen}.")
    else:
        masked = f"{vectors} to {label_party}, masked: only sums can be read"
        sent = masked if mode == "sums" else _sent(job, name, vectors, to=f" to {label_party}")
        said.append(f"This party has sent {sent}.")
        left = "Its columns and its weights have not left this machine"
        encrypted = ", but for its columns once, encrypted under a key that it keeps" if mode != "plain" else ""
        said.append(f"{left}{encrypted}.")
    said += _paired(job, name)
    said.append("Others on the network have learnt how many bytes were sent, and when.")
    return said


def _paired(job: Job, name: str) -> Iterator[str]:
    """What the runs of pairs, for the report, show besides."""
    others, label_party = partners(job), job.label_party
    if name == label_party and others:
        yield f"Besides, {listed(others)} each train with {label_party} alone, for its report, and show as much."
    elif name in others:
        yield f"Besides, {name} trains with {label_party} alone: the report of that run says what it shows."


def _sent(job: Job, name: str, vectors: str, to: str = "") -> str:
    """What a party sends in a run without masks: numbers per row, or noisy sums where it learns in one private pass."""
    if mechanism_of(job, name).schedule is Schedule.ONE_PASS:
        return f"sums over all its rows{to}, with the noise of its guarantee, and no number per row"
    noisy = ", with the noise of its guarantee" if guaranteed(job, name) else ""
    return f"{vectors}{to}: its partial scores{noisy}"


def revealed_by_scores(job: Job, name: str, requests: int | None) -> list[str]:
    """What a prediction service has shown so far; only its own program knows how many requests there were."""
    label_party = job.label_party
    if name != label_party:
        return [
            f"Each row that a client asks for shows {label_party} {_part(job)}.",
            "This party sees which of its ids are asked for, and when. Its columns and its weights stay here.",
        ]
    if not requests:
        return ["Nothing yet: nobody has asked for a score."]
    others = [party for party in job.parties if party != label_party]
    answered = "1 request was" if requests == 1 else f"{requests:,} requests were"
    have = "has" if len(others) == 1 else "have"
    return [
        f"{answered} answered: each client has the scores of the rows that it asked for.",
        f"{label_party} has learnt {_part(job)} for each of these rows.",
        f"{listed(others)} {have} seen which ids were asked for, and when.",
    ]


def _part(job: Job) -> str:
    """What the label party learns of one score."""
    masked = job.protection is not None and job.protection.mode == "sums"
    return "the sum of the other parties' parts" if masked else "every party's part of the score"
