"""`kcr dev` as a process."""

import re
import signal
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.client import Client, HttpTransport, Request, load_config
from kcr.testing import eventually
from tests.e2e.processes import Start
from tests.kit.http_servers import read

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  backoffLimit: 0
  template:
    spec:
      terminationGracePeriodSeconds: 1
      restartPolicy: {policy}
      containers: [{{name: main, image: busybox, command: [sh, -c, {script!r}]}}]
"""


def manifest(tmp_path: Path, name: str, script: str, policy: str = "Never") -> str:
    path = tmp_path / f"{name}.yaml"
    path.write_text(JOB.format(name=name, script=script, policy=policy), encoding="utf-8")
    return str(path)


def indexed(tmp_path: Path) -> str:
    path = Path(manifest(tmp_path, "indexed", "echo index $JOB_COMPLETION_INDEX"))
    fields = "spec:\n  completionMode: Indexed\n  completions: 2\n  parallelism: 2\n"
    path.write_text(path.read_text().replace("spec:\n", fields, 1))
    return str(path)


def short_lived(tmp_path: Path, ttl_seconds: int) -> str:
    path = Path(manifest(tmp_path, "quick", "echo done"))
    path.write_text(path.read_text().replace("spec:\n", f"spec:\n  ttlSecondsAfterFinished: {ttl_seconds}\n", 1))
    return str(path)


def is_alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


BLOCKER = """
import time

import kcr
from kcr.api.core import Namespace


class Blocking:
    async def reconcile(self, key):
        if key.name == "default":
            time.sleep(0.5)
        return kcr.Result()


def setup(manager):
    manager.add_controller("blocker", Blocking(), watches=[kcr.watch(Namespace)])
"""


@pytest.mark.soak
@pytest.mark.parametrize("page", [[], ["--no-debug-page"]], ids=["page", "no-page"])
async def test_line_that_blocks_the_event_loop_is_a_warning(kcr: Start, tmp_path: Path, page: list[str]) -> None:
    (tmp_path / "blocker.py").write_text(BLOCKER)
    async with kcr("dev", "--controllers", "blocker:setup", *page, folder=tmp_path) as dev:
        warning = r"Warning: event loop was blocked \(seconds=0\.[4-9]\d*, where=.*blocker\.py:11 reconcile\)"
        await eventually(lambda: re.search(warning, dev.err), seconds=30)


IDLE = """
import kcr
from kcr.api.core import Namespace

class Idle:
    async def reconcile(self, key):
        return kcr.Result()

def setup(manager):
    manager.add_controller("idle", Idle(), watches=[kcr.watch(Namespace)])
"""


@pytest.mark.soak
async def test_jobs_end_beside_controllers_of_ones_own(kcr: Start, tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text(IDLE)
    options = ("--controllers", "idle:setup", "-f", manifest(tmp_path, "hello", "echo hello"), "--wait")
    async with kcr("dev", *options, folder=tmp_path) as dev:
        assert await dev.end() == 0, dev.err


@pytest.mark.soak
async def test_pi_is_printed_with_2000_digits(kcr: Start) -> None:
    async with kcr("dev", "-f", "examples/pi-python.yaml", "--wait") as dev:
        assert await dev.end() == 0, dev.err
        assert dev.out.startswith("3.14159265358979")
        assert len(dev.out) == len("3.") + 1999 + len("\n")
        assert re.search(r"^job pi: Complete in \d+s: 1/1 succeeded$", dev.err, re.MULTILINE)
        assert "without isolation" in dev.err


async def test_failed_job_shows_exit_code_stderr_and_reason(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "-f", manifest(tmp_path, "bad", "echo no such digits >&2; exit 3"), "--wait") as dev:
        assert await dev.end() == 1, dev.err
        assert dev.out == "no such digits\n"
        assert "Error: Container main ended with exit code 3" in dev.err
        assert "BackoffLimitExceeded: Job has reached the specified backoff limit" in dev.err.splitlines()[-1]


@pytest.mark.soak
async def test_logs_of_several_jobs_say_whose_they_are(kcr: Start, tmp_path: Path) -> None:
    files = [manifest(tmp_path, "one", "echo 1"), manifest(tmp_path, "two", "echo 2")]
    async with kcr("dev", "-f", files[0], "-f", files[1], "--wait") as dev:
        assert await dev.end() == 0, dev.err
        lines = sorted(dev.out.splitlines())
        assert [line.split(" | ")[1] for line in lines] == ["1", "2"]
        assert [line[:4] for line in lines] == ["one-", "two-"]


@pytest.mark.soak
async def test_invalid_job_is_refused_by_file_object_and_field(kcr: Start, tmp_path: Path) -> None:
    path = manifest(tmp_path, "bad", "true", policy="Always")
    async with kcr("dev", "-f", path, "--wait") as dev:
        assert await dev.end() == 1
        line = dev.err.splitlines()[-1]
        assert line.startswith(f"kcr: {path}: Job bad: spec.template.spec.restartPolicy: ")


@pytest.mark.soak
async def test_job_of_an_old_version_is_waited_for(kcr: Start) -> None:
    arguments = ("dev", "-f", "examples/selectors/v1beta1.yaml", "--wait")
    async with kcr(*arguments, "--legacy-apis") as dev:
        assert await dev.end() == 0, dev.err
        assert dev.out == "all sums are right\n"
        assert "job.extensions/old-report created" in dev.err
    async with kcr(*arguments) as dev:
        assert await dev.end() == 1
        assert "the server serves no Job in extensions/v1beta1" in dev.err


@pytest.mark.soak
@pytest.mark.parametrize(("gate", "wanted"), [("true", "shardInfo"), ("false", "resourceVersion")])
async def test_feature_gate_turns_shard_selectors_on(kcr: Start, gate: str, wanted: str) -> None:
    async with kcr("dev", "--no-controllers", "--feature-gates", f"ShardedListAndWatch={gate}") as dev:
        selector = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')"
        async with HttpTransport(load_config(str(await dev.kubeconfig()))) as transport:
            found = await read(transport, Request("GET", f"/api/v1/pods?shardSelector={quote(selector)}"))
        assert list(msgspec.json.decode(found)["metadata"])[-1] == wanted


@pytest.mark.soak
async def test_pods_of_an_indexed_job_know_their_index(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "-f", indexed(tmp_path), "--wait") as dev:
        assert await dev.end() == 0, dev.err
        lines = sorted(dev.out.splitlines())
        assert [line.split(" | ")[1] for line in lines] == ["index 0", "index 1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)])
async def test_signal_leaves_neither_process_nor_kubeconfig(kcr: Start, tmp_path: Path, number: signal.Signals) -> None:
    pids = tmp_path / "pids"
    # A manifest says `$$` for a dollar sign that is to stay one.
    script = f"sleep 1000 & echo $$$$ $! > {pids}; wait"
    async with kcr("dev", "-f", manifest(tmp_path, "long", script)) as dev:
        kubeconfig = await dev.kubeconfig()
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        await eventually(lambda: pids.exists() and pids.read_text(encoding="utf-8").strip())
        assert await dev.stop(number) == 0
        assert "Traceback" not in dev.err
        assert not kubeconfig.exists()
        assert not any(is_alive(int(pid)) for pid in pids.read_text(encoding="utf-8").split())


@pytest.mark.soak
async def test_interrupted_wait_is_no_success(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "-f", manifest(tmp_path, "long", "sleep 1000"), "--wait") as dev:
        await eventually(lambda: "job long: Running: 0/1 succeeded, 1 active" in dev.err)
        assert await dev.stop(signal.SIGINT) == 130


# It waits for ten seconds.
@pytest.mark.soak
async def test_wait_that_takes_long_says_where_to_look(kcr: Start, tmp_path: Path) -> None:
    async with kcr("dev", "-f", manifest(tmp_path, "long", "sleep 1000"), "--wait") as dev:
        await eventually(lambda: "job long: Running: 0/1 succeeded, 1 active" in dev.err)
        assert "kubectl" not in dev.err
        assert (await dev.kubeconfig()).exists()
        await eventually(lambda: "\n  page http://127.0.0.1:" in dev.err)


@pytest.mark.soak
async def test_job_that_goes_at_once_has_ended_all_the_same(kcr: Start, tmp_path: Path) -> None:
    path = short_lived(tmp_path, ttl_seconds=0)
    async with kcr("dev", "-f", path, "--wait") as dev:
        assert await dev.end() == 0, dev.err
        assert dev.out == "done\n"
        assert "job quick: Complete" in dev.err


@pytest.mark.soak
async def test_ttl_is_kept_without_being_asked_for(kcr: Start, tmp_path: Path) -> None:
    path = short_lived(tmp_path, ttl_seconds=1)
    async with kcr("dev", "-f", path) as dev:
        kubeconfig = str(await dev.kubeconfig())
        await eventually(lambda: "job quick: Complete" in dev.err, seconds=30)
        async with HttpTransport(load_config(kubeconfig)) as transport:
            client = Client(transport)

            async def nothing_is_left() -> bool:
                return not await client.list(Job, "default") and not await client.list(Pod, "default")

            await eventually(nothing_is_left, seconds=30)
