"""Fixtures: clock and cluster in virtual time, the seed, an API server in real time; and the timeline in reports."""

import asyncio
import random
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest
import pytest_asyncio

from kcr.stacks import await_stack
from kcr_devcluster.testing.loop import VirtualClock, VirtualLoop
from kcr_devcluster.testing.plugin import SEED
from kcr_devcluster.testing.timeline import Timeline

if TYPE_CHECKING:
    from kcr.client import ClusterConfig
    from kcr_devcluster.cluster import EmbeddedCluster
    from kcr_devcluster.testing.controlplane import ApiServer
    from kcr_devcluster.testing.faults import FaultyTransport

_TIMELINE = pytest.StashKey[Timeline]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record the writes of a test in virtual time to embedded servers."""
    if not item.get_closest_marker("kcr_virtual"):
        return (yield)
    timeline = item.stash[_TIMELINE] = Timeline()
    with timeline.recording():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the timeline and the seed to the report of a test that failed."""
    report = yield
    timeline = item.stash.get(_TIMELINE, None)
    if report.when == "call" and report.failed and timeline is not None and (text := timeline.text()):
        report.sections.append(("kcr timeline", f"{text}\n(--kcr-seed {item.config.stash[SEED]})"))
    return report


# Each states its loop, for `asyncio_default_fixture_loop_scope` may name another one than the test's.
@pytest_asyncio.fixture(loop_scope="function")
async def kcr_clock(request: pytest.FixtureRequest) -> AsyncIterator[VirtualClock]:
    """Give the virtual clock of the test; at the end no task may be left.

    Raises:
        pytest.UsageError: The test has no virtual loop.
    """
    clock, loop = VirtualClock(), asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        remedy = "make it an `async def`, and mark it with pytest.mark.kcr_virtual"
        raise pytest.UsageError(f"{request.node.nodeid}: kcr_clock needs a test that runs in virtual time: {remedy}")
    yield clock
    if not loop.stalled:
        await clock.settle()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        left = sorted(f"{task.get_name()}: {await_stack(task)}" for task in tasks)
        if left:
            pytest.fail(f"tasks left behind: {', '.join(left)}")


@pytest.fixture
def kcr_seed(pytestconfig: pytest.Config) -> int:
    """Give the seed of `--kcr-seed`, for a test that draws by itself: `random.Random(kcr_seed)`."""
    return pytestconfig.stash[SEED]


@pytest_asyncio.fixture(loop_scope="function")
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
    from kcr_devcluster.testing.faults import FaultyTransport  # noqa: PLC0415  # most tests need no faults

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
    "kcr_cluster": (
        "kinds", "controllers", "finish_pods", "deployments", "authorization", "nodes", "sharded_list_and_watch",
    ),
    "kcr_apiserver": ("kinds",),
}  # fmt: skip


@pytest.fixture(scope="session")
def _kcr_real_server() -> Iterator["ClusterConfig | None"]:
    """Run one kube-apiserver for all tests of the process, where there is one to run."""
    from kcr_devcluster.testing.controlplane import real_server  # noqa: PLC0415  # most tests need no server

    with real_server() as config:
        yield config


@pytest.fixture
def kcr_apiserver(request: pytest.FixtureRequest) -> "ApiServer":
    """Give an API server over TLS: the one that `KUBEBUILDER_ASSETS` names, else the embedded one.

    It runs on the loop of the test, and serves the kinds of the mark, `@pytest.mark.kcr_apiserver(kinds=[Website])`,
    beside the built-in ones.
    """
    mark = request.node.get_closest_marker("asyncio")
    scope = mark.kwargs.get("loop_scope") if mark else None
    scope = scope or request.config.getini("asyncio_default_test_loop_scope")
    server: ApiServer = request.getfixturevalue(f"_kcr_apiserver_on_{scope}_loop")
    return server


def _apiserver_on(scope: Literal["function", "class", "module", "package", "session"]) -> Any:
    """Return the fixture of a server on the loop of a scope: a fixture's loop is fixed when it is declared."""

    @pytest_asyncio.fixture(name=f"_kcr_apiserver_on_{scope}_loop", loop_scope=scope)
    async def serve(
        request: pytest.FixtureRequest, _kcr_real_server: "ClusterConfig | None"
    ) -> AsyncIterator["ApiServer"]:
        from kcr_devcluster.testing.controlplane import api_server  # noqa: PLC0415  # see above

        async with api_server(_kcr_real_server, **_options_of(request, "kcr_apiserver")) as server:
            yield server

    return serve


_on_function, _on_class, _on_module = _apiserver_on("function"), _apiserver_on("class"), _apiserver_on("module")
_on_package, _on_session = _apiserver_on("package"), _apiserver_on("session")
