import re

import pytest
import structlog

import kcr_devcluster.testing.faults  # noqa: F401  # see above

# Loaded before the runs of pytest inside pytest, each of which forgets the modules that it has loaded.

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

def test_mutates_without_fixtures_of_ours():
    from kcr.api.core import ConfigMap
    from kcr.testing import FakeInformer, build
    FakeInformer(ConfigMap).add(build.config_map("plain-colors", {"sky": "blue"})).data["sky"] = "grey"

@pytest.mark.asyncio
async def test_mutates_in_a_fake_manager():
    from kcr.api.core import ConfigMap
    from kcr.testing import FakeManager, build
    manager = FakeManager()
    manager.informer(ConfigMap).add(build.config_map("fake-colors", {"sky": "blue"}))
    (colors,) = manager.store(ConfigMap).list()
    colors.metadata.labels["sky"] = "grey"
    manager.informer(ConfigMap).delete(colors)

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
    result.assert_outcomes(passed=12, failed=1, errors=5)
    result.stdout.fnmatch_lines(["*tasks left behind: forgotten: locks.py:* wait"])  # TK-3
    result.stdout.fnmatch_lines(["*MutatedError: configmaps default/colors: changed inside the store*"])
    result.stdout.fnmatch_lines(["*MutatedError: configmaps default/server-colors: changed inside the store*"])
    result.stdout.fnmatch_lines(["*MutatedError: configmaps default/plain-colors: changed inside the store*"])
    result.stdout.fnmatch_lines(["*MutatedError: configmaps default/fake-colors: changed inside the store*"])
    result.stdout.fnmatch_lines(["*StallError: every task waits and no timer is set*", "*test_stalls > *wait*"])


def test_plugin_does_no_harm_without_pytest_asyncio(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(): pass")
    pytester.runpytest_inprocess("-p", "no:asyncio").assert_outcomes(passed=1)


def test_missing_pytest_asyncio_is_one_line_with_the_remedy(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_own="import pytest\n@pytest.mark.kcr_virtual\nasync def test_hours(kcr_clock): pass")
    result = pytester.runpytest_inprocess("-p", "no:asyncio")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line]
    assert line.startswith("ERROR: test_own.py::test_hours: ")
    assert line.endswith("need pytest-asyncio: pip install 'kcr[test]'")


LOGGING = """
import pytest
import kcr
from kcr.api.core import ConfigMap
from kcr.testing import build, FakeManager
from kcr.log import get_logger

class Failing:
    async def reconcile(self, key):
        raise TimeoutError("billing")

@pytest.mark.kcr_virtual
async def test_fails(kcr_cluster, kcr_clock):
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock)
    manager.add_controller("copier", Failing(), watches=[kcr.watch(ConfigMap)])
    async with manager.running():
        await kcr_cluster.client.create(build.config_map("a", uid="", resource_version=""))
        await kcr_clock.advance(60)
        assert False

def test_fails_without_kcr():
    get_logger().info("quiet")
    assert False
"""


@pytest.mark.usefixtures("unconfigured_logs")
def test_failed_test_shows_short_lines_of_its_log(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(LOGGING)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(failed=2)
    failing = "warning  copier default/a: reconcile failed (error=TimeoutError: billing, retries={})"
    result.stdout.fnmatch_lines(
        ["*Captured stderr call*", "      0.0  info *ready*", f"      0.0  {failing.format(1)}", "Traceback*",
         f"*  {failing.format(2)}", f"     ??.?  {failing.format('*')}"],
    )  # fmt: skip
    printed = result.stdout.str()
    assert printed.count("Traceback") == 1
    assert "Captured stdout" not in printed
    assert "quiet" not in printed.replace('"quiet"', "")
    assert not structlog.is_configured()


SEEDED = """
import random
import pytest
from kcr import Client, ConflictError
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta

@pytest.mark.kcr_virtual
async def test_draws(kcr_seed, kcr_cluster, kcr_faults):
    kcr_faults.on("create", chance=0.5).fail(ConflictError)
    client, failed = Client(kcr_faults), []
    for number in range(10):
        try:
            created = await client.create(ConfigMap(metadata=ObjectMeta(name=f"a{number}", namespace="default")))
        except ConflictError:
            failed.append(number)
    print("drawn", kcr_seed, created.metadata.uid, failed)

@pytest.mark.kcr_cluster(kind=[])
@pytest.mark.kcr_virtual
async def test_wrong_mark(kcr_cluster): ...
"""


def test_seed_draws_names_and_faults(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(test_own=SEEDED)

    def drawn(*arguments: str) -> str:
        result = pytester.runpytest_inprocess("-s", "-k", "draws", *arguments)
        result.assert_outcomes(passed=1, deselected=1)
        found: list[str] = re.findall(r"drawn .*\]", result.stdout.str())
        (line,) = found
        assert not arguments or f"kcr: --kcr-seed {line.split()[1]}" in result.outlines
        return line

    usual, seventh = drawn(), drawn("--kcr-seed", "7")
    assert usual.startswith("drawn 0 ")
    assert seventh.startswith("drawn 7 ")
    assert usual.split()[2:] != seventh.split()[2:]
    assert drawn("--kcr-seed", "7") == seventh
    assert drawn("--kcr-seed", "random") != usual


def test_wrong_seed_and_wrong_option_are_told_in_a_line(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(test_own=SEEDED)
    result = pytester.runpytest_inprocess("--kcr-seed", "seven")
    assert result.errlines == ["ERROR: --kcr-seed seven: give it a whole number, or random", ""]
    result = pytester.runpytest_inprocess("-k", "wrong")
    result.assert_outcomes(errors=1, deselected=1)
    result.stdout.fnmatch_lines(
        ["*the mark kcr_cluster takes kinds=, controllers=, *, nodes=, sharded_list_and_watch= only, not 'kind'"]
    )


STORY = """
import pytest
import kcr
from kcr.api.batch import Job
from kcr.api.core import ConfigMap, Pod
from kcr.testing import build, eventually
from tests.kit.harness import manifest

@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(controllers=["job"])
async def test_story(kcr_cluster, kcr_clock):
    job = await kcr_cluster.client.create_manifest(Job, manifest("pi"), "default")
    await kcr_clock.advance(5)
    with pytest.raises(kcr.AlreadyExistsError):
        await kcr_cluster.client.create_manifest(Job, manifest("pi"), "default")
    assert (await kcr_cluster.client.get(Job, job.key)).status.succeeded == 2

@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(finish_pods=True)
async def test_passes_where_pods_finish(kcr_cluster, kcr_clock):
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    for name, annotations in (("good", {}), ("bad", {"sim.kcr.dev/exit-code": "3"})):
        metadata = {"name": name, "namespace": "default", "annotations": annotations}
        await kcr_cluster.client.create_manifest(Pod, {"metadata": metadata, "spec": spec}, "default")
    await kcr_clock.advance(10)
    phases = {pod.metadata.name: pod.status.phase for pod in await kcr_cluster.client.list(Pod)}
    assert phases == {"good": "Succeeded", "bad": "Failed"}
"""


STORY_LINES = [
    "      0.0  test               create  jobs.batch default/pi",
    "      0.0  job                create  pods default/POD",
    "      0.0  scheduler          create  pods default/POD/binding",
    "      0.0  job-controller     event   Normal SuccessfulCreate: Job default/pi: Created pod: POD",
    "      0.0  kubelet            patch   pods default/POD/status  phase=Succeeded  …",
    "      5.0  test               create  jobs.batch default/pi  409 AlreadyExists",
]


def test_failing_virtual_test_tells_its_story(pytester: pytest.Pytester) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(test_own=STORY)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1, failed=1)
    text = result.stdout.str()
    _, _, story = text[: text.index("(--kcr-seed 0)")].partition("kcr timeline")
    pod = re.search(r"pods default/(pi-\w+)$", story, re.MULTILINE)
    assert pod is not None
    lines = [re.sub("Succeeded  .*", "Succeeded  …", line.replace(pod[1], "POD")) for line in story.splitlines()]
    assert [line for line in lines if line in STORY_LINES] == STORY_LINES
