"""Fixtures: a clock and a cluster in virtual time, and an API server in real time."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest
import pytest_asyncio

from kcr.testing.loop import VirtualClock, VirtualLoop
from kcr.testing.plugin import SEED, TIMELINE
from kcr.testing.timeline import Timeline

if TYPE_CHECKING:
    from kcr.api.meta import Key, Resource
    from kcr.client import ClusterConfig
    from kcr.testing.transports.faults import FaultyTransport
    from kcr_devcluster.cluster import EmbeddedCluster
    from kcr_devcluster.testing.controlplane import ApiServer


class MutatedError(AssertionError):
    """An object in a store was mutated, instead of a copy of it."""


@contextmanager
def unchanged_stores() -> Iterator[None]:
    """Raise MutatedError at the end if an object in a store has been mutated.

    Maps inside frozen values are protected by the type checker only. A controller that mutates one anyway changes the
    objects of all other readers, without a watch event. Only objects that are put while the context lives are compared.
    """
    # Not at the top: pytest imports this module in every project, and the store brings the HTTP client.
    from kcr.api import codec  # noqa: PLC0415  # see above
    from kcr.informer import Store  # noqa: PLC0415  # see above

    given: WeakKeyDictionary[Store[Any], dict[Key, tuple[Resource, bytes]]] = WeakKeyDictionary()
    put = Store.put

    def noting_put(store: Store[Any], obj: "Resource") -> Any:
        given.setdefault(store, {})[obj.key] = (obj, codec.encode(obj))
        return put(store, obj)

    Store.put = noting_put  # type: ignore[method-assign,assignment]  # for the length of a test
    try:
        yield
    finally:
        Store.put = put  # type: ignore[method-assign]  # put back at the end
    for store, objects in given.items():
        present = {obj.key: obj for obj in store.snapshot()}
        for key, (obj, encoded) in objects.items():
            if present.get(key) is obj and codec.encode(obj) != encoded:
                raise MutatedError(f"{obj.resource.display} {key}: changed inside the store; change a copy")


@pytest_asyncio.fixture
async def kcr_clock(request: pytest.FixtureRequest) -> AsyncIterator[VirtualClock]:
    """Give the virtual clock of the test; at the end no task may be left, and no stored object changed."""
    clock = VirtualClock()
    timeline = request.node.stash[TIMELINE] = Timeline()
    with unchanged_stores(), timeline.recording():
        yield clock
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop) and not loop.stalled:
        await clock.settle()
        left = sorted(task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task())
        if left:
            pytest.fail(f"tasks left behind: {', '.join(left)}")


@pytest.fixture
def kcr_seed(pytestconfig: pytest.Config) -> int:
    """Give the seed of `--kcr-seed`, for a test that draws by itself: `random.Random(kcr_seed)`."""
    return pytestconfig.stash[SEED]


@pytest_asyncio.fixture
async def kcr_cluster(
    request: pytest.FixtureRequest, kcr_clock: VirtualClock, kcr_seed: int
) -> AsyncIterator["EmbeddedCluster"]:
    """Give an embedded cluster whose node simulates its pods, in virtual time and with the seed of `--kcr-seed`.

    The mark `kcr_cluster` has its options: `@pytest.mark.kcr_cluster(controllers=["job"], finish_pods=True)`; see
    `kcr.testing.simulated_cluster`.
    """
    from kcr_devcluster.testing.clusters import simulated_cluster  # noqa: PLC0415  # most tests need no cluster

    options = _options_of(request, "kcr_cluster")
    async with simulated_cluster(clock=kcr_clock, random=random.Random(kcr_seed), **options) as cluster:
        yield cluster


@pytest.fixture
def kcr_faults(kcr_cluster: "EmbeddedCluster", kcr_seed: int) -> "FaultyTransport":
    """Give a way to the cluster with faults, whose chances are drawn from the seed of `--kcr-seed`."""
    from kcr.testing.transports.faults import FaultyTransport  # noqa: PLC0415  # most tests need no faults

    return FaultyTransport(kcr_cluster.transport, random=random.Random(kcr_seed))


def _options_of(request: pytest.FixtureRequest, mark: str) -> dict[str, Any]:
    """Return the options of the mark that is named like its fixture.

    Raises:
        pytest.UsageError: There is no such option.
    """
    found = request.node.get_closest_marker(mark)
    if found is None:
        return {}
    unknown = [*found.args, *(name for name in found.kwargs if name not in _OPTIONS[mark])]
    if unknown:
        raise pytest.UsageError(
            f"the mark {mark} takes {', '.join(f'{name}=' for name in _OPTIONS[mark])} only, not {unknown[0]!r}"
        )
    return dict(found.kwargs)


_OPTIONS = {
    "kcr_cluster": ("kinds", "controllers", "finish_pods", "deployments", "authorization", "nodes"),
    "kcr_apiserver": ("kinds",),
}


@pytest.fixture(scope="session")
def _kcr_real_server() -> Iterator["ClusterConfig | None"]:
    """Run one kube-apiserver for all tests of the process, where there is one to run."""
    from kcr_devcluster.testing.controlplane import real_server  # noqa: PLC0415  # most tests need no server

    with real_server() as config:
        yield config


@pytest_asyncio.fixture
async def kcr_apiserver(
    request: pytest.FixtureRequest, _kcr_real_server: "ClusterConfig | None"
) -> AsyncIterator["ApiServer"]:
    """Give an API server over TLS: the one that `KUBEBUILDER_ASSETS` names, else the embedded one.

    It serves the kinds of the mark, `@pytest.mark.kcr_apiserver(kinds=[Website])`, beside the built-in ones. At the end
    no stored object may have been changed.
    """
    from kcr_devcluster.testing.controlplane import api_server  # noqa: PLC0415  # see above

    with unchanged_stores():
        async with api_server(_kcr_real_server, **_options_of(request, "kcr_apiserver")) as server:
            yield server
