"""The live page in a real browser, beside real programs."""

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plait.deployment.processes import free_port
from tests.e2e.browser import browser, needs_browser, picture
from tests.e2e.conftest import JobMaker
from tests.e2e.test_blind import blind
from tests.e2e.test_service import serve, start, train

SLOWLY = 'name = "proximal"\nrho = 3.0'  # many cheap rounds: time to look
UNNAMED = """
return [...document.querySelectorAll("section, [role=log], [role=img], progress")]
  .filter(e => e.offsetParent && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby"))
  .map(e => e.outerHTML.slice(0, 80))
"""

SQUEEZED = """
return [...document.querySelectorAll("#curves .uplot")]
  .map(e => [e.clientWidth, e.querySelector("canvas").width / devicePixelRatio])
  .filter(([shown, drawn]) => Math.abs(shown - drawn) > 2)
"""


def until(driver: Any, what: Callable[[str], bool], element: str, seconds: float = 30) -> str:
    """Wait until the text of an element is as it should be; returns it."""
    deadline = time.monotonic() + seconds
    while not what(text := driver.find_element("id", element).text):
        assert time.monotonic() < deadline, f"#{element} says {text!r}"
        time.sleep(0.05)
    return text


@needs_browser
def test_a_page_follows_a_run_from_waiting_to_the_report(jobs: JobMaker, tmp_path: Path) -> None:
    job = jobs(method=SLOWLY, rounds=300, rows=2000, tol=0)
    port = free_port()
    job.start("bank", "--page", f"127.0.0.1:{port}", "--stay")
    job.until("bank", "waiting for shop")
    with browser() as driver:
        driver.get(f"http://127.0.0.1:{port}/")
        until(
            driver, lambda text: text.startswith("Waiting for shop. The run ends when a party is away for "), "headline"
        )
        assert "away" in driver.find_element("id", "parties").text
        picture(driver, tmp_path / "waiting.png")
        job.start("shop")
        until(driver, lambda text: text == "Ended: max_rounds = 300 reached", "headline", seconds=120)
        mark = r"([0-9a-f]{4} ){7}[0-9a-f]{4}"
        assert re.search(rf"shop (connected|has its results) \S+ .*{mark}", driver.find_element("id", "parties").text)
        cards = driver.find_element("id", "cards").text.split("\n")
        assert cards[cards.index("rounds") + 1] == "300"
        assert "shop has sent 300 vectors of 2,000 numbers" in driver.find_element("id", "revealed").text
        assert driver.execute_script("return points.length") == 300
        assert len(driver.find_elements("css selector", "#curves canvas")) == 3
        assert driver.execute_script(SQUEEZED) == []
        assert driver.find_element("id", "objective").get_attribute("aria-label").startswith("objective: now 0.")
        picture(driver, tmp_path / "done.png")
        report = until(driver, bool, "finished")
        assert report.startswith("Read the report")
        driver.get(f"http://127.0.0.1:{port}/report")
        assert "test" in driver.find_element("tag name", "h1").text
        assert driver.get_log("browser") == []
    job.programs["bank"].send_signal(signal.SIGINT)
    assert [job.wait("bank"), job.wait("shop")] == [0, 0], "Ctrl-C ends the page; the run had ended well"
    assert "Interrupted" not in job.log("bank")


@needs_browser
def test_the_page_can_be_used_without_a_mouse_and_has_names_for_all_it_shows(jobs: JobMaker) -> None:
    job = jobs(method='name = "subspace"', tol=1e-6)
    port = free_port()
    job.start("bank", "--page", f"127.0.0.1:{port}")
    job.until("bank", "waiting for shop")
    with browser(width=400, height=800, dark=True) as driver:
        driver.get(f"http://127.0.0.1:{port}/")
        until(driver, bool, "log")
        driver.find_element("tag name", "body").send_keys("\ue004")  # the Tab key
        assert driver.switch_to.active_element.text == "Skip to the content"
        assert driver.execute_script(UNNAMED) == []
        assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert driver.execute_script(wide) <= 0  # nothing hangs over the edge of a telephone


@needs_browser
def test_a_failed_run_keeps_its_page_and_a_feature_party_that_serves_has_one(jobs: JobMaker) -> None:
    job = jobs(rounds=3, rows=200, patience=1)
    port, other = free_port(), free_port()
    job.start("bank", "--page", f"127.0.0.1:{port}", "--stay")
    job.until("bank", "the page stays")
    with browser() as driver:
        driver.get(f"http://127.0.0.1:{port}/")
        assert until(driver, lambda text: text.startswith("The run has failed"), "headline")
        assert "shop" in driver.find_element("id", "warnings").text
        job.programs["bank"].send_signal(signal.SIGINT)
        assert job.wait("bank") == 1
        start(job, "shop", "--page", f"127.0.0.1:{other}", "--rows", "shop.csv")
        job.until("serve-shop", "live page")
        driver.get(f"http://127.0.0.1:{other}/")
        until(driver, lambda text: text == "Waiting for the coordinator.", "headline")
        assert "shows bank every party's part of the score" in driver.find_element("id", "revealed").text
        assert driver.get_log("browser") == []


@needs_browser
def test_a_feature_party_whose_run_fails_says_so_on_its_page_and_to_its_tracker(jobs: JobMaker) -> None:
    job = jobs(method=SLOWLY, rounds=100_000, tol=0, rows=200, patience=4)
    port, track = free_port(), job.folder / "shop.jsonl"
    job.start("bank")
    job.start("shop", "--page", f"127.0.0.1:{port}", "--stay", "--track", str(track))
    job.until("shop", "round    3")
    with browser() as driver:
        driver.get(f"http://127.0.0.1:{port}/")
        until(driver, lambda text: text.startswith("Training: round"), "headline")
        job.kill("bank")
        until(driver, lambda text: text.startswith("Waiting for the coordinator: bank is away since"), "headline")
        job.until("shop", "the page stays")
        until(driver, lambda text: text.startswith("The run has failed: the coordinator 'bank' must be"), "headline")
        assert "bank" in driver.find_element("id", "warnings").text
        assert "away" in driver.find_element("id", "parties").text
        assert driver.get_log("browser") == []
    last = json.loads(track.read_text().splitlines()[-1])
    assert (last["event"], last["failed"]) == ("end", True)
    assert last["reason"].startswith("the coordinator 'bank' must be reachable")


@needs_browser
def test_pages_follow_an_alignment_from_its_first_moment(jobs: JobMaker) -> None:
    job = jobs(rows=3000, rounds=3, more="[alignment]\nmin_rows = 5\n")
    ports = {name: free_port() for name in job.parties}
    seen = set()
    with browser() as driver:
        for name, port in ports.items():
            job.start(name, "--yes", "--page", f"127.0.0.1:{port}", "--stay")
            job.until(name, "live page")
        driver.get(f"http://127.0.0.1:{ports['bank']}/")
        while "Ended" not in (text := driver.find_element("id", "headline").text):
            seen.add(re.sub(r"\d[\d,.]*", "N", text))
            assert not text.startswith("The run has failed"), text
        assert any(text.startswith("Finding the common rows") for text in seen), seen
        assert "aligning" in driver.find_element("id", "phases").text
        driver.get(f"http://127.0.0.1:{ports['shop']}/")
        until(driver, lambda text: text.startswith("Ended"), "headline")
        assert driver.get_log("browser") == []


@needs_browser
def test_the_pages_of_a_blind_machine_and_of_both_owners_say_who_they_are(jobs: JobMaker) -> None:
    job = blind(jobs)
    ports = {name: free_port() for name in job.everybody}
    for name, port in ports.items():
        job.start(name, "--page", f"127.0.0.1:{port}", "--stay")
    roles = {
        "machine": "Blind machine machine, program plait blind",
        "bank": "Label party bank",
        "shop": "Feature party",
    }
    with browser() as driver:
        for name, port in ports.items():
            job.until(name, "the page stays")
            driver.get(f"http://127.0.0.1:{port}/")
            until(driver, lambda text: text == "Done. The model is trained.", "headline")
            assert driver.find_element("css selector", "header .quiet").text.startswith(roles[name])
            assert "done" in driver.find_element("css selector", "#phases [aria-current]").text
    reports = {path.parent.name: path.read_text() for path in job.folder.glob("runs/*/*/report.html")}
    assert "How good the model is" in reports["bank"], "the owner of the labels reads what to do next"
    assert "How good the model is" not in reports["coordinator"], "the machine cannot measure anything"


@needs_browser
def test_the_page_of_a_service_counts_requests_and_says_who_is_away(jobs: JobMaker, tmp_path: Path) -> None:
    job = jobs(rounds=3, rows=200)
    train(job)
    port = free_port()
    served = serve(job, "--page", f"127.0.0.1:{port}")
    with browser() as driver:
        driver.get(f"http://127.0.0.1:{port}/")
        until(driver, lambda text: text == "Serving scores. Everybody is here.", "headline")
        assert served.scores("n1", "n2")[0] == 200
        assert served.ask("/health")[0] == 200  # watchdogs ask for no score
        assert served.ask("/scores", {"ids": 7})[0] == 400
        until(driver, lambda text: "requests answered\n1\nrequests refused\n1" in text, "cards")
        until(driver, lambda text: "1 request was answered" in text, "revealed")
        assert "shop has seen which ids" in driver.find_element("id", "revealed").text
        assert driver.execute_script(UNNAMED) == []
        picture(driver, tmp_path / "serving.png")
        job.kill("serve-shop")
        until(driver, lambda text: text == "Waiting for shop.", "headline")
        assert "away" in driver.find_element("id", "parties").text
        picture(driver, tmp_path / "away.png")
        assert driver.get_log("browser") == []
