"""Informer metrics: read from the informers' own counters on scrape, so watch events cost nothing extra."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from kcr.metrics.table import Row

INFORMER_LABELS = ("name", "group", "version", "resource")


def _count(name: str) -> Callable[[Any], float]:
    return lambda informer: informer.counts.get(name, 0)


def _counts(**names: str) -> Callable[[Any], Mapping[str, float]]:
    return lambda informer: {value: informer.counts.get(name, 0) for value, name in names.items()}


INFORMER_ROWS = (
    Row(
        CounterMetricFamily, "kcr_reflector_lists", "Total number of lists, in pages or by WatchList.",
        _counts(paged="lists", watchlist="streams"), label="mode",
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_watches", "Total number of watches that ended, by cause.",
        _counts(timeout="timeout", gone="gone", error="error", idle="idle", short="short"), label="end",
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_lost_events",
        "Total number of lost or invalid watch events; each is followed by a relist.", _count("lost"),
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_relists",
        "Total number of relists after watches that could not be resumed.",
        _count("relists"),
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_decode_errors", "Total number of undecodable objects.",
        _count("undecodable"),
    ),
    Row(
        CounterMetricFamily, "kcr_handler_errors", "Total number of exceptions in event handlers.",
        _count("handler_errors"),
    ),
    Row(
        GaugeMetricFamily, "kcr_cache_objects", "Current number of objects in the store.",
        lambda informer: len(informer.store),
    ),
    Row(
        GaugeMetricFamily, "informer_store_resource_version",
        "The last 15 digits of the store's resourceVersion.",
        lambda informer: informer.store.resource_version % 10**15,
    ),
    Row(
        GaugeMetricFamily, "kcr_reflector_list_duration_seconds", "Duration of the last list in seconds.",
        lambda informer: informer.list_duration_seconds,
    ),
    Row(
        GaugeMetricFamily, "kcr_reflector_last_event_age_seconds", "Seconds since the last watch event.",
        lambda informer: asyncio.get_running_loop().time() - informer.last_event_time,
    ),
)  # fmt: skip
