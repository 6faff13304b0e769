"""What the service counts, as Prometheus reads it (text format 0.0.4)."""

import time
from collections import Counter
from collections.abc import Mapping

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)  # seconds, as Prometheus' own clients have them
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Counts:
    """Requests, their times and scored ids since the start; used by one thread."""

    def __init__(self) -> None:
        self._began = time.time()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._ids: Counter[str] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds = 0.0
        self._timed = 0
        self.under_way = 0

    def request(self, path: str, client: str, status: int, seconds: float) -> None:
        """One request has been answered."""
        self._requests[path, client, status] += 1
        if path.startswith("/scores"):
            self._timed += 1
            self._seconds += seconds
            self._within[next((edge for edge in _BUCKETS if seconds <= edge), float("inf"))] += 1

    def scored(self, client: str, ids: int) -> None:
        """So many ids were scored for a client."""
        self._ids[client] += ids

    def page(self, run: str, parties: Mapping[str, bool]) -> str:
        """All of it as text; `parties` says who is here."""
        lines = [
            *_heading("plait_requests_total", "counter", "Requests that were answered."),
            *(
                f'plait_requests_total{{path="{path}",client="{client}",status="{status}"}} {count}'
                for (path, client, status), count in sorted(self._requests.items())
            ),
            *_heading("plait_scored_ids_total", "counter", "Ids that were asked for in answered requests."),
            *(f'plait_scored_ids_total{{client="{client}"}} {n}' for client, n in sorted(self._ids.items())),
            *_heading("plait_request_seconds", "histogram", "Time to answer a request for scores."),
            *self._histogram(),
            *_heading("plait_requests_under_way", "gauge", "Requests that are being answered."),
            f"plait_requests_under_way {self.under_way}",
            *_heading("plait_party_connected", "gauge", "1 when a party is here."),
            *(f'plait_party_connected{{party="{name}"}} {int(here)}' for name, here in parties.items()),
            *_heading("plait_model_info", "gauge", "The run whose model is used."),
            f'plait_model_info{{run="{run}"}} 1',
            *_heading("process_start_time_seconds", "gauge", "When the service started, in seconds since 1970."),
            f"process_start_time_seconds {self._began:.3f}",
        ]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        lines, total = [], 0
        for edge in _BUCKETS:
            total += self._within[edge]
            lines.append(f'plait_request_seconds_bucket{{le="{edge:g}"}} {total}')
        lines.append(f'plait_request_seconds_bucket{{le="+Inf"}} {self._timed}')
        return [*lines, f"plait_request_seconds_sum {self._seconds:.6f}", f"plait_request_seconds_count {self._timed}"]


def _heading(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
