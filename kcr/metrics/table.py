"""Metric families as a table: the family, its help text, and the reader of its value."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Generic, NamedTuple, TypeVar

from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from kcr.clock import SystemClock

T = TypeVar("T")

_CLOCK = SystemClock()

Family = type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]


class Histogram:
    """Counts observations in buckets. prometheus-client's own takes three times as long, and is locked."""

    __slots__ = ("_bounds", "_counts", "_exemplars", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Make an empty histogram with these upper bounds, ascending, and a last bucket that has none."""
        self._bounds = bounds
        # How many observations fell into each bucket alone.
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        # The last observation of each bucket that had labels.
        self._exemplars: dict[int, Exemplar] = {}

    def observe(self, value: float, exemplar: Mapping[str, str] | None = None) -> None:
        """Count one observation.

        Args:
            value: The observed value.
            exemplar: Labels that lead to it, such as the id of a trace; only OpenMetrics shows them. None for none.
        """
        bucket = bisect_left(self._bounds, value)
        self._counts[bucket] += 1
        self._sum += value
        if exemplar is not None:
            self._exemplars[bucket] = Exemplar({**exemplar}, value, _CLOCK.now().timestamp())

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Add this histogram to a metric family as the series with these label values."""
        bounds = (*map(floatToGoString, self._bounds), "+Inf")
        buckets: list[Any] = list(zip(bounds, accumulate(self._counts), strict=True))
        for bucket, exemplar in self._exemplars.items():
            buckets[bucket] = (*buckets[bucket], exemplar)
        family.add_metric(labels, buckets, self._sum)


class Row(NamedTuple):
    """One metric family.

    Attributes:
        family: Its type.
        name: Its name, of a counter without `_total`.
        help: Its help text: upstream's where upstream has the metric.
        read: Returns the value of one source: a number, a `Histogram`, or with `label` numbers by its values.
        label: A label beside those of the table.
    """

    family: Family
    name: str
    help: str
    read: Callable[[Any], float | Histogram | Mapping[str, float]]
    label: str = ""


class MetricsTable(Generic[T]):
    """A collector of the metrics of several sources of one type, read when the registry is.

    Attributes:
        sources: The counting objects, by the values of the labels.
    """

    def __init__(self, labels: Sequence[str], rows: Sequence[Row]) -> None:
        """Make a table without sources.

        Args:
            labels: The names of the labels that distinguish the sources.
            rows: The metric families.
        """
        self.sources: dict[tuple[str, ...], T] = {}
        self._labels = labels
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        for row in self._rows:
            labels = (*self._labels, row.label) if row.label else self._labels
            family = row.family(row.name, row.help, labels=labels)
            for values, source in self.sources.items():
                _add(family, values, row.read(source))
            yield family


def _add(family: Any, labels: Sequence[str], value: float | Histogram | Mapping[str, float]) -> None:
    if isinstance(value, Histogram):
        value.add_to(family, labels)
    elif isinstance(value, Mapping):
        # A copy: webhooks count on a thread of their own.
        for label, number in dict(value).items():
            family.add_metric((*labels, label), number)
    else:
        family.add_metric(labels, value)
