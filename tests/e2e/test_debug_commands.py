"""`kcr explain` and `kcr debug` at the debug port of `kcr run`, beside `kcr dev --no-controllers`."""

import json
import re
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.client import Client, HttpTransport, load_config
from kcr.testing import eventually
from tests.e2e.processes import Running, Start
from tests.kit.debug_pages import showing
from tests.kit.debug_states import debug_state, loop_state, process_state

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

# A program with a controller of its own, that fails, and says why in its own words.
PROGRAM = """
import kcr
from kcr.api.core import Secret

class SecretReconciler:
    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        raise RuntimeError("https://kcr:hunter22hunter@example.dev: password=hunter22hunter is wrong")

    async def explain(self, key: kcr.Key):
        return kcr.Explanation(kcr.Code.WAITING, "waits for its DNS entry", reasons=("the zone is locked",))

def setup(manager: kcr.Manager) -> None:
    manager.add_controller("vault", SecretReconciler(), watches=[kcr.watch(Secret)])
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: pi}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: busybox, command: [sh, -c, exit 3], env: [{name: A, value: hunter22hunter}]}]
---
apiVersion: v1
kind: Secret
metadata: {name: ci}
stringData: {password: hunter22hunter}
"""
PORTS = "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0", "--log-format=json"


class Program(NamedTuple):
    """A running `kcr run`, and how to reach it."""

    kcr: Start
    environment: dict[str, str]
    probes: str
    metrics: str

    @asynccontextmanager
    async def __call__(self, *arguments: str) -> AsyncIterator[Running]:
        async with self.kcr(*arguments, **self.environment) as run:
            await run.end()
            yield run


def config_of(run: Program) -> Any:
    return yaml.safe_load(Path(run.environment["KUBECONFIG"]).read_text(encoding="utf-8"))


def address(log: str, what: str) -> str:
    found = re.search(rf'"what":"{what}","address":"([^"]+)"', log)
    return found[1] if found else ""


@asynccontextmanager
async def program(kcr: Start, folder: Path) -> AsyncIterator[Program]:
    """Run the controllers in a process of their own."""
    (folder / "vault.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "objects.yaml").write_text(JOB, encoding="utf-8")
    async with kcr("dev", "--no-controllers", "-f", str(folder / "objects.yaml")) as dev:
        environment = {"KUBECONFIG": str(await dev.kubeconfig())}
        more = {"PYTHONPATH": str(folder), "KCR_JOB_POD_FAILURE_BACKOFF": "500"}
        async with kcr("run", "--take-over", "--controllers=job,vault:setup", *PORTS, **environment, **more) as run:
            await run.ready()
            await eventually(lambda: address(run.err, "probes") and address(run.err, "metrics"))
            yield Program(kcr, environment, address(run.err, "probes"), address(run.err, "metrics"))


async def has_failed(client: Client) -> bool:
    return (await client.get(Job, Key("default", "pi"))).status.failed == 1


@pytest.mark.soak
async def test_explain_shows_what_the_controller_knows(kcr: Start, tmp_path: Path) -> None:
    async with program(kcr, tmp_path) as run:
        port = f"--debug-address={run.probes}"

        # Each command takes half a second to start: the status is asked for until there is something to explain.
        async with HttpTransport(load_config(run.environment["KUBECONFIG"])) as transport:
            await eventually(partial(has_failed, Client(transport)), seconds=60)
        async with run("explain", "job/pi", port) as asked:
            # From outside it would be 10 s, the default.
            assert re.search(r"job default/pi: waits (8m\d*s?|\d{3}s) before", asked.out), asked.out
            assert re.search(r"controller  job: waits for a time that a reconcile asked for: queued in 8m", asked.out)
            assert (asked.process.returncode, asked.err) == (0, "")
        async with run("explain", "secret/ci", port) as asked:
            headline = r"secret default/ci: controller vault fails, \d+ times in a row: RuntimeError:(.|\n)*is wrong\n"
            assert re.match(headline, asked.out), asked.out
            assert "  why         it waits for its DNS entry\n              the zone is locked\n" in asked.out
            assert re.search(r"controller  vault: in backoff after \d+ failures? in a row: retried (in|now)", asked.out)
            assert re.search(r"last error, \d+s ago: RuntimeError: ", asked.out)
        async with run("explain", "secret/ci", port, "-o", "json") as asked:
            (found,) = json.loads(asked.out)["controller"]
            assert (found["controller"], found["explanation"]["headline"]) == ("vault", "waits for its DNS entry")


CONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


@pytest.mark.soak
async def test_blocked_loop_is_told_in_place_of_a_server_that_does_not_answer(kcr: Start, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(CONFIG, encoding="utf-8")
    blocked = loop_state(lag_seconds=7.2, blocked_at="shop.py:40 reconcile > shop.py:52 crunch")
    state = debug_state(process=process_state(command="kcr dev", server=""), loop=blocked)
    async with showing(state) as (process, _):
        port = f"--debug-address={process.url.split('/')[2]}"
        async with kcr("explain", "site/shop", port, KUBECONFIG=str(config)) as asked:
            assert (await asked.end(), asked.out) == (1, "")
            assert asked.err == (
                "kcr: the cluster does not answer: the event loop of kcr dev, pid 1, has been blocked for 7s at "
                "shop.py:40 reconcile > shop.py:52 crunch: await what blocks, or give it a thread: "
                "await asyncio.to_thread(function, …)\n"
            )


@pytest.mark.soak
async def test_debug_port_of_dev_is_found_by_its_kubeconfig(kcr: Start, tmp_path: Path) -> None:
    objects = tmp_path / "objects.yaml"
    objects.write_text(JOB, encoding="utf-8")
    async with kcr("dev", "-f", str(objects)) as dev:
        config = str(await dev.kubeconfig())

        async def knows() -> bool:
            async with kcr("explain", "job/pi", KUBECONFIG=config) as asked:
                return (
                    await asked.end() == 0 and re.search(r"controller  job: .*\n +at kcr dev ", asked.out) is not None
                )

        await eventually(knows, seconds=30)
        async with kcr("explain", "secret/ci", KUBECONFIG=config) as asked:
            assert (await asked.end(), "controller" in asked.out) == (0, False)
        async with kcr("debug", "stacks", KUBECONFIG=config) as asked:
            assert (await asked.end(), "MainThread: " in asked.out) == (0, True)


async def test_dump_has_everything_but_secrets(kcr: Start, tmp_path: Path) -> None:
    file = tmp_path / "dump.tar.gz"
    async with program(kcr, tmp_path) as run:
        port = f"--debug-address={run.probes}"
        async with run("debug", "dump", port, f"--metrics-address={run.metrics}", "-o", str(file)) as dumped:
            assert dumped.process.returncode == 0, dumped.err
            assert re.match(rf"wrote {re.escape(str(file))}, \d+ bytes: versions.json, state.json, ", dumped.err)
        token = config_of(run)["users"][0]["user"]
        async with run("debug", "stacks", port) as stacks:
            assert "MainThread" in stacks.out
        async with run("debug", "profile", "1", port, "-o", str(tmp_path / "profile.txt")) as profiled:
            assert re.match(
                r"\d+ samples((, [\d.]+% of them idle)?\n +OWN +TOTAL +FUNCTION\n|, all of them idle: )", profiled.err
            )
            assert re.fullmatch(r"(.+ \d+\n)+", (tmp_path / "profile.txt").read_text(encoding="utf-8"))
    with tarfile.open(file) as archive:
        found = {Path(one.name).name: archive.extractfile(one).read().decode() for one in archive}  # type: ignore[union-attr] # all are files
    assert file.stat().st_mode & 0o777 == 0o600
    assert set(found) == {
        "MANIFEST", "versions.json", "state.json", "errors.txt", "options.json", "stacks.txt", "metrics.txt",
    }  # fmt: skip
    assert "controller_runtime_reconcile_total" in found["metrics.txt"]
    assert "RuntimeError" in found["errors.txt"]
    assert "[left out]" in found["errors.txt"]
    everything = "".join(found.values())
    assert "hunter22hunter" not in everything
    assert token["token"] not in everything
