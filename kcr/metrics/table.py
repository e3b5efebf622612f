"""Metric families as a table: which family, its help text, and how its value is read from what counts it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from kcr.metrics.histogram import Histogram

T = TypeVar("T")

Family = type[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]


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
    read: Callable[[Any], "float | Histogram | Mapping[str, float]"]
    label: str = ""


class MetricsTable(Generic[T]):
    """A collector of the metrics of several sources of one type, read when the registry is.

    Attributes:
        sources: What counts, by the values of the labels.
    """

    def __init__(self, labels: Sequence[str], rows: Sequence[Row]) -> None:
        """Make a table without sources.

        Args:
            labels: The names of the labels that tell the sources apart.
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


def _add(family: Any, labels: Sequence[str], value: "float | Histogram | Mapping[str, float]") -> None:
    if isinstance(value, Histogram):
        value.add_to(family, labels)
    elif isinstance(value, Mapping):
        for label, number in value.items():
            family.add_metric((*labels, label), number)
    else:
        family.add_metric(labels, value)
