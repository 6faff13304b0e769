"""A job that is started again: an interrupted run goes on, and after a finished one a new one begins and says so."""

from pathlib import Path

from plait.deployment.coordinator_opening import OpenedRun, open_run
from plait.deployment.job_file import read_job, read_party

JOB = 'format = 1\nname = "credit"\nparties = ["bank", "shop"]\nprotection = "plain"\n[coordinator]\nname = "bank"\n'


def test_a_start_says_whether_it_goes_on_or_begins_anew(tmp_path: Path) -> None:
    path, said = tmp_path / "job.toml", list[str]()
    path.write_text(JOB)
    (tmp_path / "bank.toml").write_text('[data]\nfile = "bank.csv"\nlabel = "y"\n')

    def opened() -> OpenedRun:
        return open_run(read_job(path), read_party(path, "bank"), [], False, True, said.append)

    first = opened()
    first.folder.release()
    assert said == []
    again = opened()
    assert again.name == first.name
    again.folder.end("finished", "within 1e-7")
    again.folder.release()
    anew = opened()
    anew.folder.release()
    assert anew.name > first.name
    assert said == [f"resuming run {first.name}", f"run {first.name} of this job has finished; a new one begins"]
