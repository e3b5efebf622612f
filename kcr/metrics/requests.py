"""Metrics of client requests and of the client's rate limiter.

Source: component-base/metrics/prometheus/restclient/metrics.go.
"""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from kcr.metrics.table import Histogram

REQUEST_BUCKETS = (.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60)  # fmt: skip


class Requests:
    """Counts requests, and takes their time."""

    def __init__(self) -> None:
        # By status code (0 for no answer), method and host; and by method and host.
        self._counts: Counter[tuple[int, str, str]] = Counter()
        self._seconds: dict[tuple[str, str], Histogram] = {}
        self._waits: dict[tuple[str, str], Histogram] = {}

    def observe_wait(self, host: str, method: str, seconds: float) -> None:
        """Count how long a request has waited for the client's rate limiter."""
        histogram = self._waits.get((method, host))
        if histogram is None:
            histogram = self._waits[method, host] = Histogram(REQUEST_BUCKETS)
        histogram.observe(seconds)

    def observe(self, host: str, method: str, code: int, seconds: float) -> None:
        """Count a request by its status code, 0 for no answer."""
        self._counts[code, method, host] += 1
        histogram = self._seconds.get((method, host))
        if histogram is None:
            histogram = self._seconds[method, host] = Histogram(REQUEST_BUCKETS)
        histogram.observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        total = CounterMetricFamily(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            labels=("code", "method", "host"),
        )
        for (code, method, host), count in self._counts.items():
            total.add_metric((str(code) if code else "<error>", method, host), count)
        took = HistogramMetricFamily(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            labels=("verb", "host"),
        )
        for pair, histogram in self._seconds.items():
            histogram.add_to(took, pair)
        waited = HistogramMetricFamily(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
            labels=("verb", "host"),
        )
        for pair, histogram in self._waits.items():
            histogram.add_to(waited, pair)
        yield from (total, took, waited)
