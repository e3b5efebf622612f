"""The samples behind the page of metrics."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Summary
from prometheus_client.core import Metric

from kcr_devcluster.dev.metric_history import (
    MAX_SAMPLES,
    MAX_SERIES,
    OWN_PREFIXES,
    STEP_SECONDS,
    MetricFamily,
    MetricHistory,
    MetricSeries,
    MetricsOverview,
    quantile,
)  # fmt: skip
from tests.kit.clocks import FixedClock

# Equal to NaN, which equals nothing.
ANY_NAN: Any = pytest.approx(math.nan, nan_ok=True)
METRICS = Path(__file__).parents[3] / "docs/reference/metrics.md"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def values(overview: MetricsOverview, name: str) -> dict[str, Sequence[float | None]]:
    """Return the values of a family by its label values."""
    (family,) = [one for one in overview.families if one.name == name]
    return {",".join(one.labels.values()): one.values for one in family.series}


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def history(registry: CollectorRegistry, clock: FixedClock) -> MetricHistory:
    return MetricHistory([registry], clock)


def test_counter_is_shown_as_rate_and_gauge_as_value(
    registry: CollectorRegistry, clock: FixedClock, history: MetricHistory
) -> None:
    copies = Counter("copies", "Copies made.", ["result"], registry=registry)
    open_files = Gauge("open_files", "Files.", registry=registry)
    copies.labels("ok").inc(100)
    history.sample()
    clock.later(4)
    copies.labels("ok").inc(6)
    copies.labels("error").inc(2)
    open_files.set(7)
    history.sample()
    shown = history.since(0)
    assert values(shown, "copies") == {"ok": [ANY_NAN, 1.5], "error": [ANY_NAN, 0.5]}
    assert values(shown, "open_files") == {"": [0.0, 7.0]}
    assert [(one.name, one.kind, one.help, one.is_own) for one in shown.families] == [
        ("copies", "counter", "Copies made.", True), ("open_files", "gauge", "Files.", True),
    ]  # fmt: skip


def test_histogram_is_shown_as_quantiles_of_what_was_observed_since(
    registry: CollectorRegistry, clock: FixedClock, history: MetricHistory
) -> None:
    seconds = Histogram("copy_seconds", "Durations.", buckets=(1, 2, 4), registry=registry)
    sizes = Summary("copy_bytes", "Sizes.", registry=registry)
    seconds.observe(3)
    sizes.observe(1000)
    history.sample()
    clock.later(3)
    for _ in range(10):
        seconds.observe(0.1)
    sizes.observe(10)
    sizes.observe(30)
    history.sample()
    clock.later(3)
    history.sample()
    shown = history.since(0)
    assert values(shown, "copy_seconds") == {
        "0.5": [ANY_NAN, 0.5, ANY_NAN], "0.9": [ANY_NAN, 0.9, ANY_NAN], "0.99": [ANY_NAN, pytest.approx(0.99), ANY_NAN],
    }  # fmt: skip
    assert values(shown, "copy_bytes") == {"": [ANY_NAN, 20.0, ANY_NAN]}


@pytest.mark.parametrize(
    ("share", "buckets", "expected"),
    [
        pytest.param(0.5, [], math.nan, id="no-buckets"),
        pytest.param(0.5, [(1, 0), (math.inf, 0)], math.nan, id="no-observations"),
        pytest.param(0.5, [(1, 0), (2, 4), (math.inf, 4)], 1.5, id="inside-a-bucket"),
        pytest.param(0.99, [(1, 1), (2, 2), (math.inf, 10)], 2, id="above-the-last-bound"),
        pytest.param(0.0, [(1, 3), (math.inf, 3)], 0, id="lowest"),
        pytest.param(1.0, [(1, 3), (2, 3), (math.inf, 3)], 1, id="highest"),
    ],
)
def test_quantile_is_a_share_of_its_bucket(share: float, buckets: list[tuple[float, float]], expected: float) -> None:
    assert quantile(share, buckets) == pytest.approx(expected, nan_ok=True)


def test_only_samples_after_a_moment_are_sent(
    registry: CollectorRegistry, clock: FixedClock, history: MetricHistory
) -> None:
    gauge = Gauge("depth", "Depth.", registry=registry)
    for depth in range(3):
        gauge.set(depth)
        history.sample()
        clock.later(3)
    times = history.since(0).times
    assert [after - before for before, after in pairwise(times)] == [3, 3]
    assert values(history.since(times[0]), "depth") == {"": [1.0, 2.0]}
    nothing = history.since(times[-1])
    assert (nothing.times, nothing.families) == ([], [])
    assert b'"values":[null]' in msgspec.json.encode(MetricsOverview(
        times=[1], keep_seconds=1, error="",
        families=[MetricFamily(name="a", help="", kind="gauge", is_own=True, left_out=0,
                               series=[MetricSeries(labels={}, values=[math.nan])])],
    ))  # fmt: skip


def test_memory_is_bounded(registry: CollectorRegistry, clock: FixedClock, history: MetricHistory) -> None:
    by_key = Gauge("by_key", "One for each key.", ["key"], registry=registry)
    by_key.labels("gone")
    history.sample()
    by_key.clear()
    for key in range(MAX_SERIES + 5):
        by_key.labels(str(key)).set(key)
    for _ in range(MAX_SAMPLES + 1):
        clock.later(STEP_SECONDS)
        history.sample()
    shown = history.since(0)
    (family,) = shown.families
    assert (len(shown.times), shown.times[-1] - shown.times[0]) == (MAX_SAMPLES, (MAX_SAMPLES - 1) * STEP_SECONDS)
    assert {len(one.values) for one in family.series} == {MAX_SAMPLES}
    # That of a series that is gone is free again when its last value has left the window.
    assert (len(family.series), family.left_out) == (MAX_SERIES, 5)
    assert {"key": "gone"} not in [one.labels for one in family.series]


def test_series_that_differ_in_other_labels_are_added_up(clock: FixedClock) -> None:
    registry = CollectorRegistry()
    requests = Counter("apiserver_request", "Requests.", ["verb", "resource", "code"], registry=registry)
    history = MetricHistory([registry], clock)
    history.sample()
    clock.later(1)
    for resource in ("pods", "jobs"):
        requests.labels("GET", resource, "200").inc(3)
    history.sample()
    assert values(history.since(0), "apiserver_request") == {"GET,200": [ANY_NAN, 6.0]}


def test_collector_that_fails_is_named_and_the_others_are_shown(clock: FixedClock) -> None:
    class Broken:
        def collect(self) -> Iterator[Metric]:
            raise ValueError("no connection")

    registry = CollectorRegistry()
    Info("build", "Constant.", registry=registry)
    Gauge("depth", "Depth.", registry=registry)
    history = MetricHistory([Broken(), registry], clock)
    history.sample()
    shown = history.since(0)
    assert shown.error == "a collector of metrics failed: ValueError: no connection"
    assert [one.name for one in shown.families] == ["depth"]


def test_each_metric_of_kcr_is_known_as_such() -> None:
    names = [line.split("`")[1] for line in METRICS.read_text().splitlines() if line.startswith("| `")]
    assert len(names) > 60
    assert [name for name in names if not name.startswith(OWN_PREFIXES)] == []
