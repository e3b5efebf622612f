"""The metrics of the last minutes, for the page of `kcr dev`: rates of counters, gauges, quantiles of histograms.

A ring of samples, so that the page shows what happened before it was opened. A sample takes the program's event loop
about two milliseconds; what a registry holds is read as a scrape reads it, and nothing is counted for the page alone.
"""

import asyncio
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple, Protocol

import msgspec
from prometheus_client.core import Metric

from kcr.clock import Clock
from kcr.errors import described

STEP_SECONDS = 3.0
# Ten minutes.
MAX_SAMPLES = 200
# Of all families together; a metric with a label of many values has more series than a plot can show.
MAX_SERIES = 1000
# Of the metric families that kcr and its embedded API server register: `docs/reference/metrics.md`.
OWN_PREFIXES = (
    "apiserver_", "certwatcher_", "controller_runtime_", "cronjob_controller_", "informer_", "job_controller_", "kcr_",
    "leader_election_", "process_", "rest_client_", "ttl_after_finished_controller_", "workqueue_",
)  # fmt: skip
_QUANTILES = {"0.5": 0.5, "0.9": 0.9, "0.99": 0.99}
_RATES = ("counter", "histogram", "summary")
# The labels by which the series of a family are added up; those of all others are kept.
_LABELS: Mapping[str, frozenset[str]] = {
    "apiserver_request": frozenset({"verb", "code"}),
    "apiserver_request_duration_seconds": frozenset({"verb"}),
    "apiserver_watch_events": frozenset({"resource"}),
    "kcr_cache_objects": frozenset({"name"}),
    "rest_client_requests": frozenset({"method", "code"}),
    "rest_client_request_duration_seconds": frozenset({"verb"}),
    "workqueue_depth": frozenset({"controller"}),
    "workqueue_queue_duration_seconds": frozenset({"controller"}),
}
# Constants, and one that another replaces.
_LEFT_OUT = frozenset({"apiserver_storage_objects", "kcr_build_info", "process_max_fds", "process_start_time_seconds"})

Labels = tuple[tuple[str, str], ...]


class Collector(Protocol):
    """What a registry of prometheus_client is, too."""

    def collect(self) -> Iterable[Metric]:
        """Return the metric families."""
        ...


class MetricSeries(msgspec.Struct, frozen=True, kw_only=True):
    """The values of one combination of labels.

    Attributes:
        labels: Its labels; `quantile` beside those of a histogram.
        values: One for each of `MetricsOverview.times`; NaN, which is null in JSON, where there is none.
    """

    labels: dict[str, str]
    values: Sequence[float | None]


class MetricFamily(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A metric.

    Attributes:
        name: Its name, of a counter without `_total`.
        help: Its help text.
        kind: `counter`: the values are per second; `gauge`; `histogram`: they are quantiles of what was observed since
            the sample before; `summary`: means of it.
        is_own: Whether neither kcr nor the API server registers it, so that it is the user's.
        series: At most so many that all families together have `MAX_SERIES`.
        left_out: How many series more there are.
    """

    name: str
    help: str
    kind: str
    is_own: bool
    series: list[MetricSeries]
    left_out: int


class MetricsOverview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The samples after a moment.

    Attributes:
        times: When they were taken, in seconds since 1970.
        keep_seconds: For how long samples are kept.
        families: The metrics; empty when there is no newer sample.
        error: Why some metrics are missing: a collector failed; empty otherwise.
    """

    times: list[float]
    keep_seconds: float
    families: list[MetricFamily]
    error: str


class _Distribution(NamedTuple):
    """What a histogram or a summary has observed since the process began.

    Attributes:
        number: How many observations.
        total: Their sum.
        buckets: Of a histogram how many were up to each bound; summed over series.
    """

    number: float
    total: float
    buckets: Mapping[float, float]


Value = float | _Distribution


class _Family(NamedTuple):
    name: str
    help: str
    kind: str
    values: Mapping[Labels, Value]


class MetricHistory:
    """Samples metrics and keeps the last minutes of them; read in any thread."""

    name = "metric history"

    def __init__(self, sources: Sequence[Collector], clock: Clock) -> None:
        self._sources = sources
        self._clock = clock
        # Held while a sample is added or copied, so that each series has one value for each time.
        self._lock = Lock()
        self._times = array("d")
        self._about: dict[str, _Family] = {}
        self._series: dict[str, dict[Labels, array[float]]] = {}
        self._left_out: dict[str, int] = {}
        self._error = ""
        # Added to the time of the process, which no one sets back, for that of the world.
        self._epoch = clock.now().timestamp() - clock.boottime()
        # The sample before; rates are differences. None before the first.
        self._last: tuple[float, Mapping[str, _Family]] | None = None

    async def run(self) -> None:
        """Take a sample every few seconds until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(STEP_SECONDS)

    def sample(self) -> None:
        """Take a sample; on the program's event loop."""
        now = self._epoch + self._clock.boottime()
        families, self._error = self._read()
        seconds, before = (now - self._last[0], self._last[1]) if self._last else (0.0, dict[str, _Family]())
        points = {name: dict(_points(one, before.get(name), seconds)) for name, one in families.items()}
        self._last = now, families
        with self._lock:
            self._about |= families
            self._times.append(now)
            self._add(points)

    def _read(self) -> tuple[Mapping[str, _Family], str]:
        families, error = dict[str, _Family](), ""
        for source in self._sources:
            try:
                for metric in source.collect():
                    if metric.name not in _LEFT_OUT and (kind := _kind(metric.type)):
                        families[metric.name] = _Family(metric.name, metric.documentation, kind, _values(metric))
            except Exception as failed:  # of a user's collector
                error = f"a collector of metrics failed: {described(failed)}"
        return families, error

    def _add(self, points: Mapping[str, Mapping[Labels, float]]) -> None:
        size = len(self._times)
        for name, values in points.items():
            known = self._series.setdefault(name, {})
            new = [labels for labels in values if labels not in known]
            room = max(0, MAX_SERIES - sum(map(len, self._series.values())))
            self._left_out[name] = len(new[room:])
            for labels in new[:room]:
                known[labels] = array("d", [math.nan] * (size - 1))
        for name, known in self._series.items():
            values = points.get(name, {})
            for labels, kept in known.items():
                kept.append(values.get(labels, math.nan))
        if size > MAX_SAMPLES:
            self._drop_oldest(points)

    def _drop_oldest(self, points: Mapping[str, Mapping[Labels, float]]) -> None:
        del self._times[0]
        for name, known in self._series.items():
            for labels, kept in list(known.items()):
                del kept[0]
                if labels not in points.get(name, ()) and all(map(math.isnan, kept)):
                    del known[labels]

    def since(self, moment: float) -> MetricsOverview:
        """Return the samples after a moment.

        Args:
            moment: In seconds since 1970; 0 for all.
        """
        with self._lock:
            start = sum(time <= moment for time in self._times)
            families = list(self._families(start)) if start < len(self._times) else []
            return MetricsOverview(
                times=self._times[start:].tolist(),
                keep_seconds=STEP_SECONDS * MAX_SAMPLES,
                families=families,
                error=self._error,
            )

    def _families(self, start: int) -> Iterator[MetricFamily]:
        for name, known in self._series.items():
            about = self._about[name]
            yield MetricFamily(
                name=name,
                help=about.help,
                kind=about.kind,
                is_own=not name.startswith(OWN_PREFIXES),
                series=[MetricSeries(labels=dict(one), values=kept[start:].tolist()) for one, kept in known.items()],
                left_out=self._left_out.get(name, 0),
            )  # fmt: skip


def _kind(type_: str) -> str:
    """Return how a family is shown; empty for one that is not."""
    if type_ in _RATES:
        return type_
    return "" if type_ in ("info", "gaugehistogram") else "gauge"


def _values(metric: Metric) -> dict[Labels, Value]:
    """Return the values of a family by labels, those of series that differ in other labels added up."""
    kept, is_distribution = _LABELS.get(metric.name), metric.type in ("histogram", "summary")
    numbers, counts = dict[Labels, float](), dict[Labels, float]()
    totals, buckets = dict[Labels, float](), dict[Labels, dict[float, float]]()
    for sample in metric.samples:
        part = sample.name.removeprefix(metric.name)
        if part == "_created":
            continue
        labels: Labels = tuple(
            item for item in sample.labels.items() if (kept is None or item[0] in kept) and item[0] != "le"
        )
        if not is_distribution:
            numbers[labels] = numbers.get(labels, 0.0) + sample.value
        elif part == "_bucket":
            bounds, bound = buckets.setdefault(labels, {}), float(sample.labels["le"])
            bounds[bound] = bounds.get(bound, 0.0) + sample.value
        elif part in ("_count", "_sum"):
            into = counts if part == "_count" else totals
            into[labels] = into.get(labels, 0.0) + sample.value
    if not is_distribution:
        return {**numbers}
    return {labels: _Distribution(n, totals.get(labels, 0.0), buckets.get(labels, {})) for labels, n in counts.items()}


def _points(family: _Family, before: _Family | None, seconds: float) -> Iterator[tuple[Labels, float]]:
    """Yield the labels and the plotted values of a family.

    Args:
        family: As it is now.
        before: As it was; None when it did not exist.
        seconds: How long ago that was; 0 without an earlier sample, when nothing is known about rates.
    """
    for labels, value in family.values.items():
        # A series that did not exist has begun at 0 since: it is of this process.
        earlier = before.values.get(labels) if before is not None else None
        if isinstance(value, _Distribution):
            yield from _distribution(family.kind, labels, value, earlier if seconds else value)
        elif family.kind == "counter":
            known = earlier if isinstance(earlier, float | int) else 0.0
            # One that was cleared begins again.
            yield labels, max(0.0, value - known) / seconds if seconds else math.nan
        else:
            yield labels, value


def _distribution(
    kind: str, labels: Labels, value: _Distribution, earlier: Value | None
) -> Iterator[tuple[Labels, float]]:
    old = earlier if isinstance(earlier, _Distribution) else _Distribution(0.0, 0.0, {})
    if kind == "summary":
        count = value.number - old.number
        yield labels, (value.total - old.total) / count if count > 0 else math.nan
        return
    buckets = [(bound, count - old.buckets.get(bound, 0.0)) for bound, count in sorted(value.buckets.items())]
    for name, share in _QUANTILES.items():
        yield (*labels, ("quantile", name)), quantile(share, buckets)


def quantile(share: float, buckets: Sequence[tuple[float, float]]) -> float:
    """Return a quantile of a histogram: its bucket's share, as if the observations in a bucket were spread evenly.

    Args:
        share: Which quantile, such as 0.99.
        buckets: The bounds, ascending, and how many observations were up to each; the last bound is infinite.

    Returns:
        NaN without observations; the last finite bound for a quantile above it.

    Source: prometheus/promql/quantile.go, bucketQuantile.
    """
    if not buckets or buckets[-1][1] <= 0:
        return math.nan
    rank, lower, below = share * buckets[-1][1], 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            return lower if math.isinf(bound) else lower + (bound - lower) * (rank - below) / (count - below)
        lower, below = bound, count
    return lower
