"""Metrics of client requests and of the client's rate limiter.

Source: component-base/metrics/prometheus/restclient/metrics.go.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from kcr.metrics.table import Histogram

REQUEST_BUCKETS = (.005, .025, .1, .25, .5, 1, 2, 4, 8, 15, 30, 60)  # fmt: skip


class Requests:
    """Counts requests, and takes their time."""

    def __init__(self) -> None:
        # By status code (0 for no answer), method and host; and by method and host.
        self._counts: Counter[tuple[int, str, str]] = Counter()
        self._seconds = defaultdict[tuple[str, str], Histogram](partial(Histogram, REQUEST_BUCKETS))
        self._waits = defaultdict[tuple[str, str], Histogram](partial(Histogram, REQUEST_BUCKETS))

    def observe_wait(self, host: str, method: str, seconds: float) -> None:
        """Count how long a request has waited for the client's rate limiter."""
        self._waits[method, host].observe(seconds)

    def observe(self, host: str, method: str, code: int, seconds: float) -> None:
        """Count a request by its status code, 0 for no answer."""
        self._counts[code, method, host] += 1
        self._seconds[method, host].observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        words = "Number of HTTP requests, partitioned by status code, method, and host."
        total = CounterMetricFamily("rest_client_requests", words, labels=("code", "method", "host"))
        for (code, method, host), count in self._counts.items():
            total.add_metric((str(code) if code else "<error>", method, host), count)
        yield total
        for name, words, histograms in (
            ("request_duration", "Request latency in seconds.", self._seconds),
            ("rate_limiter_duration", "Client side rate limiter latency in seconds.", self._waits),
        ):
            help_text = f"{words} Broken down by verb, and host."
            family = HistogramMetricFamily(f"rest_client_{name}_seconds", help_text, labels=("verb", "host"))
            for pair, histogram in histograms.items():
                histogram.add_to(family, pair)
            yield family
