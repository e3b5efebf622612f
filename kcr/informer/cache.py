"""The informers of a manager: one per kind, made on first use, and waited for together."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar, cast

import structlog

from kcr.api.meta import PartialObjectMetadata, Resource
from kcr.errors import NotSyncedError
from kcr.informer.informer import Informer
from kcr.informer.selection import Selection, disjoint

R = TypeVar("R", bound=Resource)

# Source: controller-runtime, Controller.CacheSyncTimeout.
SYNC_SECONDS = 120.0
# How often a log line names the caches that are not synced, and how often absent kinds are looked for.
UNSYNCED_LINE_SECONDS = 20.0
_LOOK_SECONDS = 1.0
# With fewer objects a full collection is quick.
FREEZE_FROM = 1000

_log = structlog.get_logger()


class InformerCache:
    """Informers by kind.

    A kind that the server does not have, such as one whose CustomResourceDefinition is not installed yet, is waited for
    by its own controllers only: it is looked for every few seconds.

    Source: controller-runtime/pkg/cache/informer_cache.go.
    """

    def __init__(self, namespace: str, make: Callable[[tuple[Selection[Any], ...]], Informer[Any]]) -> None:
        """Make an empty cache.

        Args:
            namespace: The one namespace to watch; empty for all.
            make: Makes an informer of these selections, and runs it.
        """
        self._namespace = namespace
        self._make = make
        self._informers: dict[type[Resource], Informer[Any]] = {}
        # Selections of some kinds; of the others, everything in the namespace.
        self._selected: dict[type[Resource], tuple[Selection[Any], ...]] = {}

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(tuple(self._informers.values()))

    def select(self, selections: tuple[Selection[Any], ...]) -> None:
        """Watch only these objects of a kind; see `Manager.select`."""
        chosen = disjoint(selections)
        kind = chosen[0].kind
        if kind in self._informers or kind in self._selected:
            raise ValueError(f"{kind.resource.display}: select before the kind is used, and once")
        self._selected[kind] = chosen

    def informer(self, kind: type[R]) -> Informer[R]:
        """Return the informer of a kind; it is made on first use."""
        informer = self._informers.get(kind)
        if informer is None:
            informer = self._informers[kind] = self._make(self.selections_of(kind))
        return cast("Informer[R]", informer)

    def pop(self, kind: type[Resource]) -> Informer[Any] | None:
        """Forget the informer of a kind and return it, None where there is none."""
        return self._informers.pop(kind, None)

    @property
    def kinds(self) -> tuple[type[Resource], ...]:
        """The kinds that have an informer."""
        return tuple(self._informers)

    @property
    def selections(self) -> tuple[Selection[Any], ...]:
        """What is watched: kinds, each in all namespaces or in some."""
        return tuple(selection.normal() for kind in self._informers for selection in self.selections_of(kind))

    def selections_of(self, kind: type[R]) -> tuple[Selection[R], ...]:
        """Return what is watched of a kind."""
        return self._selected.get(kind) or (Selection(kind, self._namespace),)

    async def wait_synced(self, *, log: bool = False) -> None:
        """Wait until all stores are synced, but those of kinds that the server does not have.

        Informers that are made meanwhile are waited for as well.

        Args:
            log: Whether a line names from time to time what is waited for, and why.

        Raises:
            NotSyncedError: A store was not filled in two minutes; the message names the cause.
        """
        loop = asyncio.get_running_loop()
        say_at = loop.time() + UNSYNCED_LINE_SECONDS
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                while late := self._late():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_SECONDS):
                            await late[0].wait_synced()
                            continue
                    if log and loop.time() >= say_at:
                        say_at += UNSYNCED_LINE_SECONDS
                        kinds, causes = len(self._late()), self._causes()
                        _log.warning(
                            "waiting for caches to sync", kinds=kinds, error=causes, gives_up_after_seconds=SYNC_SECONDS
                        )
        except TimeoutError as error:
            raise NotSyncedError(f"not synced after {SYNC_SECONDS:.0f} s: {self._causes()}") from error

    async def wait_served(self, controller: str, kinds: set[type[Resource]]) -> None:
        """Wait until the stores of some kinds are synced, for as long as it takes: they may not be installed yet.

        Args:
            controller: Who waits, for the log.
            kinds: The kinds.
        """
        waiting = [kind.resource.display for kind in kinds if not self.informer(kind).store.synced]
        if waiting:
            remedy = "install their CustomResourceDefinitions; the controller begins then"
            _log.warning("controller waits for kinds", controller=controller, kinds=sorted(waiting), remedy=remedy)
        for kind in kinds:
            await self.informer(kind).wait_synced()
        if waiting:
            _log.info("controller begins: its kinds are served", controller=controller)

    def freeze(self) -> None:
        """Let the garbage collector pass over what is cached: full collections would block the event loop."""
        if sum(len(informer.store) for informer in self) >= FREEZE_FROM:
            gc.collect()
            gc.freeze()

    def _late(self) -> list[Informer[Any]]:
        return [informer for informer in self if not informer.store.synced and not informer.is_absent]

    def _causes(self) -> str:
        return "; ".join(informer.not_synced_reason for informer in self._late())


def informer_name(kind: type[Resource]) -> str:
    """Return what the informer of a kind is called in health checks and metrics.

    A kind may have two informers, one of them of the metadata only.
    """
    return kind.resource.display + ("-metadata" if issubclass(kind, PartialObjectMetadata) else "")
