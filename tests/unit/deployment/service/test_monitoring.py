"""The page for Prometheus, read by a small reader of its text format."""

import re

from plait.deployment.service.monitoring import Counts

SAMPLE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="[^"]*",?)*)\})? (\S+)$')


def read(page: str) -> dict[tuple[str, str], float]:
    """Every sample by name and labels; each line must be a comment or a sample."""
    found = {}
    for line in page.splitlines():
        if not line.startswith("# "):
            match = SAMPLE.match(line)
            assert match is not None, line
            found[match[1], match[2] or ""] = float(match[3])
    return found


def test_counts_times_and_parties_can_be_read() -> None:
    counts = Counts()
    for seconds in (0.004, 0.02, 0.3, 7.0):
        counts.request("/scores", "crm", 200, seconds)
    counts.request("/ready", "anybody", 503, 9.0)
    counts.scored("crm", 12)
    found = read(counts.page("20260101-120000-0a1b2c", {"bank": True, "shop": False}))
    assert found["plait_requests_total", 'path="/scores",client="crm",status="200"'] == 4
    assert found["plait_requests_total", 'path="/ready",client="anybody",status="503"'] == 1
    assert found["plait_scored_ids_total", 'client="crm"'] == 12
    buckets = [v for (name, _), v in found.items() if name == "plait_request_seconds_bucket"]
    assert buckets == sorted(buckets), "a histogram of Prometheus is cumulative"
    assert found["plait_request_seconds_bucket", 'le="0.005"'] == 1
    assert found["plait_request_seconds_bucket", 'le="0.5"'] == 3
    assert found["plait_request_seconds_bucket", 'le="+Inf"'] == found["plait_request_seconds_count", ""] == 4
    assert abs(found["plait_request_seconds_sum", ""] - 7.324) < 1e-9
    assert found["plait_party_connected", 'party="shop"'] == 0
