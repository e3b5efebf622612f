import pytest

INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"

# One project for all of it: every run of pytest inside pytest costs seconds.
TESTS = """
import asyncio
import pytest
from hypothesis import given, strategies as st

kept = []

@pytest.mark.kcr_virtual
async def test_passes_hours():
    await asyncio.sleep(36_000)

class TestInside:
    pytestmark = pytest.mark.kcr_virtual

    async def test_passes_days(self):
        await asyncio.sleep(360_000)

    def test_passes_plain(self):
        pass

@pytest.mark.kcr_virtual
@given(st.integers(1, 1000))
async def test_passes_law(hours):
    await asyncio.sleep(hours * 3600)

@pytest.mark.asyncio
async def test_passes_on_its_own_loop():
    assert "Virtual" not in type(asyncio.get_running_loop()).__name__

def test_passes_without_fixtures_of_ours(request):
    assert "kcr_clock" not in request.fixturenames

@pytest.mark.kcr_virtual
async def test_leaks():
    kept.append(asyncio.create_task(asyncio.Event().wait(), name="forgotten"))

@pytest.mark.kcr_virtual
async def test_mutates():
    from kcr.api.core import ConfigMap
    from kcr.testing import FakeInformer, build
    FakeInformer(ConfigMap).add(build.config_map("colors", {"sky": "blue"})).data["sky"] = "grey"

@pytest.mark.asyncio
async def test_mutates_on_a_server(kcr_apiserver):
    from kcr.api.core import ConfigMap
    from kcr.testing import FakeInformer, build
    FakeInformer(ConfigMap).add(build.config_map("server-colors", {"sky": "blue"})).data["sky"] = "grey"

@pytest.mark.kcr_virtual
async def test_stalls():
    await asyncio.Event().wait()

@pytest.mark.kcr_virtual
async def test_passes_after_a_stall(kcr_clock):
    await kcr_clock.advance(1)
"""


def test_mark_brings_loop_clock_and_checks_and_spares_other_tests(pytester: pytest.Pytester) -> None:
    # TK-1, TK-2
    pytester.makeini(INI)
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=10, failed=1, errors=3)
    result.stdout.fnmatch_lines(["*tasks left behind: forgotten*"])  # TK-3
    result.stdout.fnmatch_lines(["*MutatedError: configmaps default/colors: changed inside the store*"])
    result.stdout.fnmatch_lines(["*MutatedError: configmaps default/server-colors: changed inside the store*"])
    result.stdout.fnmatch_lines(["*StallError: every task waits and no timer is set*", "*test_stalls > *wait*"])


def test_plugin_does_no_harm_without_pytest_asyncio(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(): pass")
    pytester.runpytest_inprocess("-p", "no:asyncio").assert_outcomes(passed=1)
