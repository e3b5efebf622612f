"""What is told of requests.

Source: component-base/metrics/prometheus/restclient/metrics.go.
"""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from kcr.metrics.durations import Durations

REQUEST_BUCKETS = (.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60)  # fmt: skip


class Requests:
    """Counts requests, and takes their time."""

    def __init__(self) -> None:
        # By status code (0 for no answer), method and host; and by method and host.
        self._counts: Counter[tuple[int, str, str]] = Counter()
        self._seconds: dict[tuple[str, str], Durations] = {}

    def observe(self, host: str, method: str, code: int, seconds: float) -> None:
        """Count a request by its status code, 0 for no answer."""
        self._counts[code, method, host] += 1
        durations = self._seconds.get((method, host))
        if durations is None:
            durations = self._seconds[method, host] = Durations(REQUEST_BUCKETS)
        durations.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Yield what is shown."""
        total = CounterMetricFamily(
            "rest_client_requests", "Requests by status code, method and host.", labels=("code", "method", "host")
        )
        for (code, method, host), count in self._counts.items():
            total.add_metric((str(code) if code else "<error>", method, host), count)
        took = HistogramMetricFamily(
            "rest_client_request_duration_seconds", "Seconds from a request to its answer.", labels=("verb", "host")
        )
        for pair, durations in self._seconds.items():
            durations.add_to(took, pair)
        yield from (total, took)
