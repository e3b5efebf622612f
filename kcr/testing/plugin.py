"""The pytest plugin: tests marked `kcr_virtual` run on a loop whose time jumps.

```python
@pytest.mark.kcr_virtual
async def test_backoff_grows(kcr_clock, kcr_cluster): ...
```

The mark stands in for `pytest.mark.asyncio`; tests without it keep the loop they have. The plugin loads in
every project that has kcr installed, so it imports nothing until it is used.
"""

import asyncio
import inspect
from collections.abc import Callable, Generator, Mapping

import pytest

LoopFactories = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and bring the fixtures where pytest-asyncio can run them."""
    config.addinivalue_line("markers", "kcr_integration: can run on a real API server (fixture kcr_apiserver)")
    config.addinivalue_line("markers", "kcr_virtual: runs on a loop whose time jumps to the next timer")
    if config.pluginmanager.hasplugin("asyncio"):
        config.pluginmanager.import_plugin("kcr.testing.fixtures")


def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, obj: object) -> None:
    """Make a virtual test an asyncio test with a clock, before pytest-asyncio looks at it."""
    if _is_coroutine_test(obj) and (_marked(obj) or collector.get_closest_marker("kcr_virtual")):
        pytest.mark.usefixtures("kcr_clock")(obj)
        pytest.mark.asyncio(obj)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_asyncio_loop_factories(item: pytest.Item) -> Generator[None, LoopFactories | None, LoopFactories]:
    """Give virtual tests their loop, and all others what they would have had."""
    others = yield
    if item.get_closest_marker("kcr_virtual"):
        from kcr.testing.loop import VirtualLoop  # noqa: PLC0415  # see the module's docstring

        return {"virtual": VirtualLoop}
    return others or {"asyncio": asyncio.new_event_loop}


def _is_coroutine_test(obj: object) -> bool:
    inner = getattr(getattr(obj, "hypothesis", None), "inner_test", obj)
    return inspect.iscoroutinefunction(inner)


def _marked(obj: object) -> bool:
    return any(mark.name == "kcr_virtual" for mark in getattr(obj, "pytestmark", ()))
