"""A new user's way, with the commands of the README: two raw CSV files, two folders, a served score."""

import csv
import datetime
import http.client
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sklearn.metrics import roc_auc_score

from plait.deployment.processes import free_port

PEOPLE = 500
NEW = range(PEOPLE, PEOPLE + 160)


def person(i: int) -> tuple[float, float, bool, float, bool]:
    """Income, loans, region, visits and default of a customer, the same at every call."""
    rng = random.Random(i)
    a, b, c, d = rng.gauss(0, 1), rng.gauss(0, 1), rng.random() < 0.4, rng.gauss(0, 1)
    return a, b, c, d, a - 0.8 * b + c + 1.2 * d + rng.gauss(0, 0.5) > 0.4


def german(value: float) -> str:
    return f"{value:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")


def write_bank(path: Path, people: list[int]) -> None:
    """Semicolons, decimal commas, thousands points, ids with blanks and in either case, dates, yes and no, Latin-1."""
    lines = ["Kunden Nr;Einkommen;Kredite;Region;Kunde seit;Ausfall"]
    for i in people:
        a, b, c, _, defaulted = person(i)
        since = datetime.date(2014, 1, 1) + datetime.timedelta(days=int(400 * b))
        name = f"K {i:05d}" if i % 4 else f" k {i:05d}"
        cells = [name, german(30_000 + 8_000 * a), f"{3 + b:.1f}".replace(".", ","), "Süd" if c else "Nord"]
        lines.append(";".join([*cells, f"{since:%d.%m.%Y}", "yes" if defaulted else "no"]))
    path.write_bytes(("\r\n".join(lines) + "\r\n").encode("latin-1"))


def write_shop(path: Path, people: list[int]) -> None:
    lines = ["customer,visits,basket,newsletter"]
    lines += [f"K {i:05d},{20 + 5 * person(i)[3]:.2f},{40 + 7 * person(i)[3]:.2f},{person(i)[2]}" for i in people]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def programs() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for program in started:
        program.kill()
        program.communicate()


def plait(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "plait", *arguments], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_raw_files_become_a_served_score(tmp_path: Path, programs: list[subprocess.Popen[str]]) -> None:
    bank, shop = tmp_path / "bank", tmp_path / "shop"
    bank.mkdir()
    (shop / "certs").mkdir(parents=True)
    order = random.Random(0)
    write_bank(bank / "kunden.csv", order.sample(range(PEOPLE), PEOPLE))
    write_shop(shop / "customers.csv", order.sample(range(40, PEOPLE), PEOPLE - 40))
    write_bank(bank / "neue.csv", list(NEW))
    write_shop(shop / "new.csv", order.sample(NEW[:-9], len(NEW) - 9))

    def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "plait", *arguments]
        program = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        programs.append(program)
        return program

    def together(ours: list[str], theirs: list[str]) -> str:
        both = [start(bank, *ours), start(shop, *theirs)]
        said = [program.communicate(timeout=120)[0] for program in both]
        assert [program.returncode for program in both] == [0, 0], "\n".join(said)
        return said[0]

    address = f"127.0.0.1:{free_port()}"
    plait(bank, "init", ".", "--name", "bank", "--data", "kunden.csv", "--address", address)
    plait(bank, "cert", "init", "bank")
    shutil.copy(bank / "job.toml", shop)
    shutil.copy(bank / "certs" / "ca.crt", shop / "certs")
    plait(shop, "init", ".", "--name", "shop", "--job", "job.toml", "--data", "customers.csv")
    asked = plait(shop, "cert", "request", "shop")
    read_out = re.search(r"fingerprint ([0-9a-f ]+)", asked)
    assert read_out is not None
    plait(bank, "cert", "sign", str(shop / "certs" / "shop.csr"), "--fingerprint", read_out[1].strip())
    shutil.copy(bank / "certs" / "shop.crt", shop / "certs")
    assert f"{PEOPLE} rows" in plait(bank, "doctor", "job.toml")
    plait(shop, "doctor", "job.toml", "--name", "shop")

    said = together(["coordinator", "job.toml", "--yes"], ["party", "job.toml", "--name", "shop", "--yes"])
    assert f"{PEOPLE - 40} common rows" in said
    weights = json.loads(next(bank.glob("runs/*/bank/weights.json")).read_text())
    assert "Kunde seit" in weights["columns"], "a column of dates is a column of numbers"
    for folder, name, file in ((bank, "bank", "neue.csv"), (shop, "shop", "new.csv")):
        path = folder / f"{name}.toml"
        path.write_text(re.sub(r'# score = "[^"]*"', f'score = "{file}"', path.read_text()))
        with (folder / "job.toml").open("a") as job:
            job.write('[scoring]\njoin = "list"\nmissing = "leave out"\n')
    said = together(["predict", "job.toml", "--name", "bank"], ["predict", "job.toml", "--name", "shop"])
    assert f"9 of {len(NEW)} rows are not known to shop: 9 have no score." in said
    found = re.search(r"(\d+) scores in (\S+); 9 rows have none", said)
    assert found is not None, said
    assert int(found[1]) == len(NEW) - 9
    with (bank / found[2]).open() as file:
        rows = list(csv.DictReader(file))
    scored = [row for row in rows if row["score"]]
    assert {row["missing"] for row in rows if not row["score"]} == {"shop"}
    truth = [person(int(row["id"].split()[1]))[4] for row in scored]
    assert roc_auc_score(truth, [float(row["score"]) for row in scored]) > 0.9

    service = start(bank, "serve", "job.toml", "--http", "127.0.0.1:0")
    start(shop, "serve", "job.toml", "--name", "shop")
    assert service.stdout is not None
    port = next(int(m[1]) for line in service.stdout if (m := re.search(r"serving scores on .*:(\d+)/", line)))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    ids = [row["id"] for row in scored[:3]]
    connection.request("POST", "/scores", json.dumps({"ids": ids}), {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    expected = [round(float(row["score"]), 3) for row in scored[:3]]
    assert [entry["score"] for entry in answer["scores"]] == pytest.approx(expected, abs=2e-3)
