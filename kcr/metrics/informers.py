"""Informer metrics: read from what informers count themselves, so that a watch event costs nothing extra."""

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
        CounterMetricFamily, "kcr_reflector_lists", "Lists, in pages or as the initial events of a watch (WatchList).",
        _counts(paged="lists", watchlist="streams"), label="mode",
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_watches", "Watches that ended, by how they ended.",
        _counts(timeout="timeout", gone="gone", error="error", idle="idle", short="short"), label="end",
    ),
    Row(
        CounterMetricFamily, "kcr_reflector_lost_events",
        "Watch events that were lost or named no object; each is followed by a relist.", _count("lost"),
    ),
    Row(CounterMetricFamily, "kcr_reflector_relists", "Relists after a watch could not go on.", _count("relists")),
    Row(
        CounterMetricFamily, "kcr_reflector_decode_errors", "Objects that could not be decoded.",
        _count("undecodable"),
    ),
    Row(CounterMetricFamily, "kcr_handler_errors", "Exceptions raised by event handlers.", _count("handler_errors")),
    Row(GaugeMetricFamily, "kcr_cache_objects", "Objects in the store.", lambda informer: len(informer.store)),
    Row(
        GaugeMetricFamily, "informer_store_resource_version",
        "The last 15 digits of the resourceVersion that the store has reached.",
        lambda informer: informer.store.resource_version % 10**15,
    ),
    Row(
        GaugeMetricFamily, "kcr_reflector_list_duration_seconds", "How long in seconds the last list took.",
        lambda informer: informer.list_duration_seconds,
    ),
    Row(
        GaugeMetricFamily, "kcr_reflector_last_event_age_seconds", "Seconds since the last watch event.",
        lambda informer: asyncio.get_running_loop().time() - informer.last_event_time,
    ),
)  # fmt: skip
