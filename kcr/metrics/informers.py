"""What is told of informers."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_INFORMER = ("name", "group", "version", "resource")


class _Stored(Protocol):
    @property
    def resource_version(self) -> int: ...
    def __len__(self) -> int: ...


class Followed(Protocol):
    """An informer, as far as metrics go."""

    @property
    def store(self) -> _Stored:
        """What is stored."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """What happened how often."""
        ...

    @property
    def fill_seconds(self) -> float:
        """How long it took to read the whole state the last time."""
        ...

    @property
    def heard_at(self) -> float:
        """The loop's time when a watch brought something the last time."""
        ...


class Informers:
    """Reads what informers count themselves, so that a watch event costs nothing extra."""

    # What is exported of the counts, under which name, and with which value of which label.
    _COUNTS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
        "kcr_reflector_lists": ("Readings of the present state.", "mode", {"paged": "lists", "watchlist": "streams"}),
        "kcr_reflector_watches": (
            "Watches that ended.", "end", {end: end for end in ("timeout", "gone", "error", "idle", "short")},
        ),
        "kcr_reflector_relists": ("Readings anew.", "", {"": "relists"}),
        "kcr_reflector_decode_errors": ("Objects that do not fit their type.", "", {"": "undecodable"}),
        "kcr_handler_errors": ("Changes that a handler failed at.", "", {"": "handler_errors"}),
    }  # fmt: skip

    def __init__(self) -> None:
        self.followed: list[tuple[tuple[str, str, str, str], Followed]] = []

    def collect(self) -> Iterator[Metric]:
        """Yield what is shown."""
        for name, (text, label, counts) in self._COUNTS.items():
            family = CounterMetricFamily(name, text, labels=(*_INFORMER, label) if label else _INFORMER)
            for resource, informer in self.followed:
                for value, count in counts.items():
                    family.add_metric((*resource, value) if label else resource, informer.counts.get(count, 0))
            yield family
        yield self._gauge("kcr_cache_objects", "Objects in the store.", lambda one: len(one.store))
        yield self._gauge(
            "informer_store_resource_version", "The last 15 digits of the version the store has reached.",
            lambda one: one.store.resource_version % 10**15,
        )  # fmt: skip
        yield self._gauge(
            "kcr_reflector_list_duration_seconds", "Seconds that reading the present state took the last time.",
            lambda one: one.fill_seconds,
        )  # fmt: skip
        yield self._gauge(
            "kcr_reflector_last_event_age_seconds", "Seconds since a watch brought something.",
            lambda one: asyncio.get_running_loop().time() - one.heard_at,
        )  # fmt: skip

    def _gauge(self, name: str, text: str, read: Callable[[Followed], float]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=_INFORMER)
        for resource, informer in self.followed:
            family.add_metric(resource, read(informer))
        return family
