"""What a deployed run shows to others without protection, and whether the owner of it has accepted that."""

from collections.abc import Callable, Iterator

from plait.deployment.job_file import Job, PartyFile
from plait.deployment.party_privacy import guaranteed
from plait.errors import PrivacyError


def shown(job: Job, file: PartyFile) -> Iterator[tuple[str, str]]:
    """Each thing that this party would show, as the option of its file that accepts it and a sentence."""
    label_party = job.coordinator.name
    if file.name == label_party and job.policy.labels is None and set(job.parties) - {label_party}:
        others = ", ".join(name for name in job.parties if name != label_party)
        yield "accept_labels_shown", f"this run shows every label to {others}, from the first round on"
    if file.name in job.parties and file.name != label_party and not guaranteed(job, file.name):
        yield (
            "accept_scores_shown",
            f"this run shows {file.name}'s part of the score of every row to {label_party}, in every round",
        )


def check_consent(job: Job, file: PartyFile, say: Callable[[str], None]) -> None:
    """Say what will be shown; PrivacyError unless the party's own file accepts all of it."""
    for option, sentence in shown(job, file):
        say(f"{file.name}: {sentence}")
        if not getattr(file.trust, option):
            raise PrivacyError(
                f"what a party shows unprotected must be accepted in its own file. Found that {sentence}, and no "
                f"trust.{option} = true in {file.name}.toml. Accept it there, or ask for a job with [privacy]."
            )


def revealed(job: Job, name: str, rounds: int, rows: int) -> list[str]:
    """What the others have learnt, and what this party has learnt from them, after so many rounds: in words."""
    label_party = job.coordinator.name
    if not rounds:
        return ["Nothing yet: no round has ended."]
    many = "one vector" if rounds == 1 else f"{rounds} vectors"
    vectors = f"{many} of {rows:,} numbers"
    helpers = [party for party in job.parties if party != label_party]
    said = []
    if name == label_party:
        for party in helpers:
            noisy = ", with the noise of its guarantee" if guaranteed(job, party) else ""
            said.append(f"{party} has sent {vectors}: its partial scores{noisy}.")
        labels = job.policy.labels
        if helpers:
            who = " and ".join(helpers)
            seen = (
                "can read every label from what was sent" if labels is None else f"saw noisy labels: {labels.sentence}"
            )
            said.append(f"{who} {seen}.")
    else:
        noisy = ", with the noise of the guarantee" if guaranteed(job, name) else ""
        said.append(f"This party has sent {vectors} to {label_party}: its partial scores{noisy}.")
        said.append("Its columns and its weights have not left this machine.")
    said.append("Others on the network have learnt how many bytes were sent, and when.")
    return said
