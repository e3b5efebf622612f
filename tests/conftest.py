"""What all tests share."""

import gc
import logging
import os
import re
import sys
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
import structlog
from hypothesis import HealthCheck, settings

from kcr.app.logs import configure_logs
from kcr_devcluster import versions
from tests.kit.environment import set_aside, setting

if TYPE_CHECKING:
    from tests.kit.traces import Traces

pytest_plugins = ("pytester",)

set_aside(os.environ)
# The version that servers have where a test names none: `make kubernetes-versions` runs the tests of the API on each.
# Set before the modules that take it as a default are imported.
versions.DEFAULT = next(one for one in versions.VERSIONS if one == setting("KCR_KUBERNETES_VERSION", versions.DEFAULT))
# Bytecode is kept, whatever the environment says. Without it each of the hundreds of processes that tests start
# compiles kcr again, a third of the time that it takes to start, and each worker rewrites the asserts of all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# aiohttp reads the certificates of this machine when it is imported, which takes 40 ms; the tests bring their own.
os.environ["SSL_CERT_FILE"] = os.devnull

# No deadline per example, and no complaint that they are drawn slowly: how long that takes says more about the other
# work of the machine than about the code. `make test` draws the same few examples each time, like the seeds of all
# other tests; `make soak` draws many others, and says how to draw a failing one again.
_KCR = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("kcr", _KCR, derandomize=True, max_examples=30)
settings.register_profile("soak", _KCR, max_examples=1000, print_blob=True)
settings.load_profile("kcr")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the long tests first, so that no worker is left with one at the end.

    They mostly wait for other processes: one worker has them while the other one computes. Laws have the limit of the
    tests that live many lives: hypothesis draws many examples, on a busy machine for longer than ten seconds. `make
    soak` draws for as long as it takes.
    """
    seconds = 0 if config.getoption("--hypothesis-profile") == "soak" else 60
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.timeout(seconds))
            item.add_marker(pytest.mark.law)
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


def pytest_xdist_auto_num_workers() -> int:
    """With `-n auto` start one worker more than there are cores: one of them often waits for other processes."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected, and freeze what lives until the end.

    The garbage collector took a fifth of the time, most of it for these objects: ten thousand tests and all modules.
    Young objects are collected less often than by default.
    """
    gc.disable()
    result = yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect once what the tests have left: pytest does so five times, and each takes a fifth of a second."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Log as `kcr run --log-level debug` does: every line of every test is rendered."""
    configure_logs("json", "debug")


class CallbackErrors(logging.Handler):
    """Collects exceptions of the event loop's callbacks: a loop only logs them."""

    texts: ClassVar[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter().format(record)
        # What the garbage collector finds is logged as well, some time after the test that left it.
        if text.startswith("Exception in callback"):
            self.texts.append(text)


logging.getLogger("asyncio").addHandler(CallbackErrors())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Fail a test in which a callback failed, such as that of a timer."""
    CallbackErrors.texts.clear()
    result = yield
    assert not CallbackErrors.texts, "\n".join(CallbackErrors.texts)
    return result


_imported = set[str]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note what is imported before a test with a folder."""
    if "tmp_path" in getattr(item, "fixturenames", ()):
        _imported.clear()
        _imported.update(sys.modules)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Forget what a test imported from its temporary folder: the next one may have a module of the same name."""
    result = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if folder is not None:
        inside = f"{folder}{os.sep}"
        sys.path[:] = [place for place in sys.path if not f"{place}{os.sep}".startswith(inside)]
        for name in sys.modules.keys() - _imported:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(inside):
                del sys.modules[name]
    return result


_numbers = count()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder of the test's own. Pytest's looks through the folders of all other tests, and links to the newest."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(_numbers)}", numbered=False)


@pytest.fixture
def unconfigured_logs() -> Iterator[None]:
    """Begin as a program that has not configured structlog, and leave the configuration that all other tests have."""
    structlog.reset_defaults()
    yield
    configure_logs("json", "debug")


@pytest.fixture
def logs_of_commands() -> Iterator[None]:
    """Restore the logs after a command that ran in the process of the tests, and configured them for its own."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    configure_logs("json", "debug")
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> "Traces":
    """Record the spans of a test."""
    # Imported by those who use it: the SDK takes a tenth of a second.
    from tests.kit.traces import Traces  # noqa: PLC0415  # see above

    return Traces(monkeypatch)
