"""Programs tell trackers their rounds; a feature party is told only what it may know."""

import json

from tests.e2e.conftest import JobMaker


def test_both_sides_track_their_rounds_and_the_party_no_objective(jobs: JobMaker) -> None:
    job = jobs(method='name = "subspace"', tol=1e-6)
    tracks = {name: job.folder / f"{name}.jsonl" for name in job.parties}
    for name in job.parties:
        job.start(name, "--track", str(tracks[name]))
    for name in job.parties:
        assert job.wait(name) == 0, job.log(name)
    for name in job.parties:
        first, *rounds, last = [json.loads(line) for line in tracks[name].read_text().splitlines()]
        assert (first["event"], first["party"], last["event"], last["converged"]) == ("begin", name, "end", True)
        assert [r["round"] for r in rounds] == list(range(1, len(rounds) + 1))
        assert all(r["bytes_up"] > 8 * first["rows"] for r in rounds)
        assert all((r["objective"] is None) == (name != job.label) for r in rounds)
    assert "round    1" in job.log("shop")
