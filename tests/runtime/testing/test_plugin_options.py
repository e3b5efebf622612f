"""The plugin beside the options of pytest-asyncio, pytest-xdist and the plugin of anyio that projects set."""

import itertools
import re
from typing import NamedTuple

import pytest

# Loaded before the runs of pytest inside pytest, each of which forgets the modules that it has loaded.
import kcr_devcluster.cluster.certificates
import kcr_devcluster.testing.clusters
import kcr_devcluster.testing.controlplane  # noqa: F401  # see above


class Options(NamedTuple):
    """The options of a project, `""` for one that is not set."""

    fixture_scope: str
    test_scope: str
    mode: str
    anyio: str = "strict"
    workers: int = 0

    @property
    def ini(self) -> str:
        rows = {
            "asyncio_default_fixture_loop_scope": self.fixture_scope,
            "asyncio_default_test_loop_scope": self.test_scope,
            "asyncio_mode": self.mode,
            "anyio_mode": self.anyio,
        }
        return "\n".join(("[pytest]", *(f"{name} = {value}" for name, value in rows.items() if value)))


SCOPES = ("function", "class", "module", "package", "session")
# Each value of each option, and the pairs that projects have.
SAMPLE = (
    Options("function", "function", "strict"),
    Options("session", "function", "strict"),
    Options("session", "session", "auto"),
    Options("fixture-scope", "module", "strict", "auto"),
    Options("package", "class", "auto", "auto"),
)
ALL = tuple(
    itertools.starmap(
        Options, itertools.product((*SCOPES, "fixture-scope"), SCOPES, ("strict", "auto"), ("strict", "auto"))
    )
) + tuple(options._replace(workers=2) for options in SAMPLE)

TESTS = """
import asyncio
import pytest
import pytest_asyncio
from kcr import Key
from kcr.api.batch import Job
from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr_devcluster.testing.loop import VirtualLoop

kept = []

def is_virtual():
    return isinstance(asyncio.get_running_loop(), VirtualLoop)

@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(controllers=["job"])
async def test_passes_job(kcr_cluster, kcr_clock):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
    metadata = {"name": "pi", "namespace": "default"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    await kcr_cluster.client.create_manifest(Job, job, namespace="default")
    await kcr_clock.advance(60)
    assert (await kcr_cluster.client.get(Job, Key("default", "pi"))).status.succeeded == 1
    assert is_virtual()

class TestInside:
    pytestmark = pytest.mark.kcr_virtual

    async def test_passes_from_the_beginning(self):
        assert is_virtual() and asyncio.get_running_loop().time() == 0
        await asyncio.sleep(3600)

    async def test_passes_from_the_beginning_again(self):
        assert is_virtual() and asyncio.get_running_loop().time() == 0

@pytest_asyncio.fixture(loop_scope="function")
async def colors(kcr_cluster):
    yield await kcr_cluster.client.create(ConfigMap(metadata=ObjectMeta(name="colors", namespace="default")))
    await kcr_cluster.client.delete(ConfigMap, Key("default", "colors"))

@pytest.mark.kcr_virtual
async def test_passes_with_a_fixture(colors, kcr_cluster):
    assert await kcr_cluster.client.get(ConfigMap, colors.key) == colors

@pytest.mark.kcr_virtual
async def test_leaks():
    kept.append(asyncio.create_task(asyncio.Event().wait(), name="forgotten"))

def test_passes_plain():
    pass

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_passes_anyio(anyio_backend):
    assert not is_virtual()
"""


# Tests on loops of pytest-asyncio, by its mark, or of anyio, in its own mode. Where both are automatic, pytest warns.
ON_ASYNCIO = """
@pytest.mark.asyncio
async def test_passes_server(kcr_apiserver):
    await kcr_apiserver.client.list(ConfigMap)
    assert not is_virtual()

class TestOutside:
    @pytest.mark.asyncio(loop_scope="class")
    async def test_passes_server_on_another_loop(self, kcr_apiserver):
        await kcr_apiserver.client.list(ConfigMap)
"""
ON_ANYIO = """
async def test_passes_server(kcr_apiserver):
    await kcr_apiserver.client.list(ConfigMap)
"""


def check(pytester: pytest.Pytester, options: Options) -> None:
    pytester.makeini(options.ini)
    if options.anyio == "strict":
        others, passed = ON_ASYNCIO, 2
    elif options.mode == "strict":
        others, passed = ON_ANYIO, 1
    else:
        others, passed = "", 0
    pytester.makepyfile(TESTS + others)
    arguments = ("-n", str(options.workers)) if options.workers else ()
    result = pytester.runpytest_inprocess(*arguments)
    result.assert_outcomes(passed=7 + passed, errors=1)
    result.stdout.fnmatch_lines(["*tasks left behind: forgotten*"])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("options", SAMPLE, ids=str)
def test_virtual_tests_run_whatever_options_a_project_has(pytester: pytest.Pytester, options: Options) -> None:
    check(pytester, options)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("options", ALL, ids=str)
def test_virtual_tests_run_with_each_combination_of_options(pytester: pytest.Pytester, options: Options) -> None:
    check(pytester, options)


@pytest.mark.parametrize(
    ("mark", "named"),
    [("asyncio(loop_scope='session')", r"asyncio\(loop_scope='session'\)"), ("anyio", "anyio")],
    ids=["asyncio", "anyio"],
)
def test_mark_of_another_loop_is_refused_with_the_remedy(pytester: pytest.Pytester, mark: str, named: str) -> None:
    pytester.makeini(SAMPLE[0].ini)
    body = f"import pytest\n@pytest.mark.kcr_virtual\n@pytest.mark.{mark}\nasync def test_hours(): pass"
    pytester.makepyfile(test_own=body)
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line]
    assert re.search(rf"test_own.py::test_hours.*kcr_virtual .* the mark {named} asks for another; remove one", line)


def test_clock_without_virtual_time_is_refused_with_the_remedy(pytester: pytest.Pytester) -> None:
    pytester.makeini(SAMPLE[1].ini)
    pytester.makepyfile("import pytest\n@pytest.mark.asyncio\nasync def test_hours(kcr_clock): pass")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*UsageError: *test_hours: kcr_clock needs*mark it with pytest.mark.kcr_virtual*"])
