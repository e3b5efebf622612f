"""`kcr.connect`: a client whose methods block, in a thread beside the cluster of the test."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import pytest_asyncio
from msgspec.structs import replace

import kcr
from kcr.api.batch import Job
from kcr.api.core import ConfigMap, Pod
from kcr.client import SyncClient
from kcr.testing import build
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.pod_connections import running_pod

pytestmark = pytest.mark.asyncio(loop_scope="module")
T = TypeVar("T")
COLORS = kcr.Key("default", "colors")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    async with EmbeddedCluster(runtime="process") as cluster:
        await running_pod(cluster, "a", "echo begun; echo on; exec sleep 600")
        path = tmp_path_factory.mktemp("sync") / "kubeconfig"
        path.write_text((await cluster.serve()).kubeconfig)
        yield str(path)


async def scripted(kubeconfig: str, script: Callable[[SyncClient], T]) -> T:
    """Run a script in a thread of its own."""

    def run() -> T:
        with kcr.connect(kubeconfig) as cluster:
            cluster.delete(ConfigMap, COLORS) if exists(cluster) else None
            return script(cluster)

    return await asyncio.to_thread(run)


def exists(cluster: SyncClient) -> bool:
    return any(found.key == COLORS for found in cluster.list(ConfigMap, "default"))


def colors(**data: str) -> ConfigMap:
    return ConfigMap(metadata=kcr.ObjectMeta(name="colors", namespace="default", labels={"a": "b"}), data=data)


async def test_methods_return_the_objects_and_raise_the_errors_of_the_client(kubeconfig: str) -> None:
    def script(cluster: SyncClient) -> None:
        made = cluster.create(colors(sky="blue"))
        assert cluster.get(ConfigMap, COLORS) == made
        assert cluster.list(ConfigMap, "default", labels="a=b") == (made,)
        changed = cluster.patch(made, replace(made, data={"sky": "grey"}))
        assert cluster.apply(colors(sea="green"), field_owner="script").data == {"sky": "grey", "sea": "green"}
        assert changed.data == {"sky": "grey"}
        with pytest.raises(kcr.AlreadyExistsError):
            cluster.create(colors())
        cluster.delete(ConfigMap, COLORS)
        with pytest.raises(kcr.NotFoundError, match='configmaps "colors" not found'):
            cluster.get(ConfigMap, COLORS)
        assert (cluster.namespace, cluster.server_version()[:2]) == ("default", "v1")

    await scripted(kubeconfig, script)


async def test_watch_is_an_iterator_that_is_left_early(kubeconfig: str) -> None:
    def script(cluster: SyncClient) -> None:
        cluster.create(colors())
        seen = []
        for event in cluster.watch(ConfigMap, "default", labels="a=b"):
            seen.append(event.type)
            match event.type:
                case "ADDED":
                    cluster.merge_patch(ConfigMap, COLORS, {"data": {"sky": "red"}})
                case "MODIFIED":
                    cluster.delete(event.object)
                case _:
                    break
        assert seen == ["ADDED", "MODIFIED", "DELETED"]
        # Nothing of it is left on the loop.
        assert cluster._run(other_tasks()) == []

    await scripted(kubeconfig, script)


async def other_tasks() -> list[str]:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:  # a connection that is closed takes its last steps
        await asyncio.wait(others, timeout=1)
    return [str(task) for task in others if not task.done()]


def later(call: Callable[[], object]) -> Iterator[None]:
    """Call something in another thread meanwhile."""
    thread = threading.Thread(target=call)
    thread.start()
    yield
    thread.join()


async def test_wait_is_for_conditions_functions_and_absence(kubeconfig: str) -> None:
    def script(cluster: SyncClient) -> None:
        assert cluster.wait(ConfigMap, COLORS, "delete", timeout=5) is None
        for _ in later(lambda: cluster.create(colors(sky="blue"))):
            found = cluster.wait(ConfigMap, COLORS, lambda obj: obj is not None and "sky" in obj.data, timeout=5)
            assert found is not None
            assert found.data == {"sky": "blue"}
        for _ in later(lambda: cluster.delete(ConfigMap, COLORS)):
            assert cluster.wait(ConfigMap, COLORS, "delete", timeout=5) is None
        with pytest.raises(TimeoutError, match=r"^configmaps default/colors: not Ready within 0\.1 s$"):
            cluster.wait(ConfigMap, COLORS, "Ready", timeout=0.1)
        # The function runs in the thread of the script, which may ask the cluster in it.
        assert cluster.wait(Pod, kcr.Key("default", "a"), lambda obj: not exists(cluster), timeout=5)
        assert cluster.wait(Pod, kcr.Key("default", "a"), "Ready", timeout=5)
        job = build.job("j")
        cluster.create(Job(metadata=kcr.ObjectMeta(name="j", namespace="default"), spec=job.spec))
        with pytest.raises(ZeroDivisionError):
            cluster.wait(Job, job.key, lambda _: 1 / 0, timeout=5)

    await scripted(kubeconfig, script)


async def test_logs_and_commands_of_a_pod(kubeconfig: str) -> None:
    def script(cluster: SyncClient) -> None:
        key = kcr.Key("default", "a")
        with pytest.raises(kcr.ApiError, match="in its image"):
            cluster.exec(key, ["no-such-program"])
        done = cluster.exec(key, ["sh", "-c", "read word; echo $word; exit 3"], stdin=b"hello\n")
        assert (done.stdout, done.exit_code) == (b"hello\n", 3)
        lines = cluster.follow_log(key)
        assert next(lines) == b"begun"
        assert next(lines) == b"on"
        assert cluster.log(key) == "begun\non\n"

    await scripted(kubeconfig, script)


async def test_it_works_where_a_loop_runs_already(kubeconfig: str) -> None:
    def notebook() -> None:
        async def cell() -> tuple[Pod, ...]:
            with kcr.connect(kubeconfig) as cluster:
                return cluster.list(Pod, "default")

        assert [pod.metadata.name for pod in asyncio.run(cell())] == ["a"]

    await asyncio.to_thread(notebook)


async def test_closed_client_says_so(kubeconfig: str) -> None:
    def script() -> None:
        cluster = kcr.connect(kubeconfig, namespace="kube-system")
        assert cluster.namespace == "kube-system"
        events = cluster.watch(Pod)
        assert next(events).type == "ADDED"
        cluster.close()
        cluster.close()
        with pytest.raises(kcr.KcrError, match=r"this client is closed: call kcr\.connect"):
            cluster.list(Pod)

    await asyncio.to_thread(script)


SCRIPT = """
import sys, kcr
from kcr.api.core import Pod
cluster = kcr.connect(sys.argv[1])
print(cluster.list(Pod, "default")[0].metadata.name, flush=True)
if sys.argv[2:]:
    try:
        for event in cluster.watch(Pod, "default"):
            print(event.type, flush=True)
    except KeyboardInterrupt:
        print("interrupted", len(cluster.list(Pod, "default")), flush=True)
"""


async def run(*arguments: str, interrupt: bool = False) -> tuple[str, str, int]:
    def program() -> tuple[str, str, int]:
        command = [sys.executable, "-c", SCRIPT, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            if interrupt:
                first += process.stdout.readline()
                process.send_signal(signal.SIGINT)
            rest, errors = process.communicate()
            return first + rest, errors, process.returncode

    return await asyncio.to_thread(program)


async def test_script_that_does_not_close_it_ends_quietly(kubeconfig: str, tmp_path: Path) -> None:
    assert await run(kubeconfig) == ("a\n", "", 0)


async def test_ctrl_c_ends_a_call_and_leaves_the_client_usable(kubeconfig: str) -> None:
    assert await run(kubeconfig, "watch", interrupt=True) == ("a\nADDED\ninterrupted 1\n", "", 0)
