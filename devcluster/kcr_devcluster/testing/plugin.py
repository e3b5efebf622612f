"""The pytest plugin: tests marked `kcr_virtual` run on a loop whose time jumps.

```python
@pytest.mark.kcr_virtual
async def test_backoff_grows(kcr_clock, kcr_cluster): ...


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(kinds=[Website], controllers=["job"])
async def test_website_has_its_build(kcr_cluster): ...
```

The mark `kcr_virtual` stands in for `pytest.mark.asyncio`; tests without it keep the loop they have. Where such a test
fails, its report has a timeline of all writes. `--kcr-seed` is the seed of names, uids and faults. Tests with a
fixture or mark of the kit log short lines to stderr, `--kcr-log-level` says from which level on; a project that
configures structlog itself keeps its own. The plugin loads in every project that has kcr-devcluster installed, so it
imports nothing until it is used.
"""

import asyncio
import inspect
import random
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack

import pytest

_ON_OWN_LOOP = pytest.mark.asyncio(loop_scope="function").mark
# What anyio_mode = auto adds to each coroutine: its fixtures would run on a loop of anyio.
_ANYIO_AUTO_MODE = pytest.mark.usefixtures("anyio_backend").mark
LoopFactories = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]

SEED = pytest.StashKey[int]()
STORES = pytest.StashKey[ExitStack]()

_MARKS = (
    "kcr_virtual: runs on a loop whose time jumps to the next timer",
    "kcr_integration: can run on a real API server (fixture kcr_apiserver)",
    "kcr_cluster(kinds=[], controllers=[], finish_pods=False, deployments=True, authorization='always-allow'): "
    "what kcr_cluster serves and runs",
    "kcr_apiserver(kinds=[]): the kinds that the fixture kcr_apiserver serves beside the built-in ones",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("kcr")
    group.addoption(
        "--kcr-seed",
        default="0",
        metavar="SEED",
        help="seed of kcr_cluster (names, uids) and kcr_faults: a number (0 by default), or random to draw one",
    )
    group.addoption(
        "--kcr-log-level",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="level of the log lines of tests with fixtures of kcr (info by default)",
    )
    group.addoption(
        "--kcr-rights",
        action="store_true",
        help="print the least role of the managers under test, and fail where they declare less",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks, and bring the fixtures where pytest-asyncio can run them."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    config.stash[SEED] = _seed(config)
    if config.getoption("--kcr-rights"):
        config.pluginmanager.import_plugin("kcr_devcluster.testing.rights_report")
    if config.pluginmanager.hasplugin("asyncio"):
        config.pluginmanager.import_plugin("kcr_devcluster.testing.fixtures")


def _seed(config: pytest.Config) -> int:
    text = config.getoption("--kcr-seed")
    if text == "random":
        workers: dict[str, int] = getattr(config, "workerinput", {})
        return workers.get("kcr_seed", random.getrandbits(32))
    try:
        return int(text)
    except ValueError:
        raise pytest.UsageError(f"--kcr-seed {text}: give it a whole number, or random") from None


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the seed, unless it is the usual one."""
    seed = config.stash[SEED]
    return f"kcr: --kcr-seed {seed}" if seed else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: "object") -> None:
    """Give all workers of pytest-xdist the same seed."""
    node.workerinput["kcr_seed"] = node.config.stash[SEED]  # type: ignore[attr-defined]  # no import of xdist


def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, obj: object) -> None:
    """Make a virtual test an asyncio test with a clock, before pytest-asyncio collects it."""
    if _is_coroutine_test(obj) and (_marked(obj) or collector.get_closest_marker("kcr_virtual")):
        own = [mark for mark in getattr(obj, "pytestmark", ()) if mark != _ANYIO_AUTO_MODE]
        # First, for the first mark counts: the test has a loop of its own, whatever loop the project's tests share.
        obj.pytestmark = [_ON_OWN_LOOP, pytest.mark.usefixtures("kcr_clock").mark, *own]  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse virtual tests that are to run on another loop as well; name the package of missing fixtures."""
    for item in items:
        if item.get_closest_marker("kcr_virtual"):
            _check_loop(item)
    if not config.pluginmanager.hasplugin("asyncio"):
        for item in items:
            if any(name.startswith("kcr_") for name in getattr(item, "fixturenames", ())):
                remedy = "the fixtures and marks kcr_… need pytest-asyncio: pip install 'kcr[test]'"
                raise pytest.UsageError(f"{item.nodeid}: {remedy}")


def _check_loop(item: pytest.Item) -> None:
    scopes = [mark.kwargs.get("loop_scope") for mark in item.own_markers if mark.name == "asyncio"]
    wrong = next((f"asyncio(loop_scope={scope!r})" for scope in scopes if scope not in (None, "function")), "")
    if item.get_closest_marker("anyio"):
        wrong = "anyio"
    if wrong:
        remedy = f"the mark {wrong} asks for another; remove one of them"
        raise pytest.UsageError(f"{item.nodeid}: the mark kcr_virtual runs a test on a loop of its own, and {remedy}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Log short lines while a test with fixtures of kcr is set up, runs, and is torn down."""
    if not any(name.startswith("kcr_") for name in getattr(item, "fixturenames", ())):
        return (yield)
    from kcr_devcluster.testing.logs import short_lines  # noqa: PLC0415  # see the module's docstring

    with short_lines(item.config.getoption("--kcr-log-level")):
        return (yield)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_asyncio_loop_factories(item: pytest.Item) -> Generator[None, LoopFactories | None, LoopFactories]:
    """Give virtual tests their loop, and all others their default."""
    others = yield
    if item.get_closest_marker("kcr_virtual"):
        from kcr_devcluster.testing.loop import VirtualLoop  # noqa: PLC0415  # see the module's docstring

        return {"virtual": VirtualLoop}
    return others or {"asyncio": asyncio.new_event_loop}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Note the objects that stores get from now on, in tests that use them."""
    if "kcr.informer" in sys.modules or item.get_closest_marker("kcr_virtual"):
        from kcr_devcluster.testing.mutations import unchanged_stores  # noqa: PLC0415  # see the module's docstring

        stores = item.stash[STORES] = ExitStack()
        stores.enter_context(unchanged_stores())
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Compare these objects once all else is torn down: the test must not have changed them in place."""
    # With another failure there is no comparison.
    with item.stash.get(STORES, ExitStack()).pop_all():
        return (yield)


def _is_coroutine_test(obj: object) -> bool:
    inner = getattr(getattr(obj, "hypothesis", None), "inner_test", obj)
    return inspect.iscoroutinefunction(inner)


def _marked(obj: object) -> bool:
    return any(mark.name == "kcr_virtual" for mark in getattr(obj, "pytestmark", ()))
