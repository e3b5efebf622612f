"""Two replicas of `kcr run` with leader election: how leadership changes hands, and when it must not."""

import json
import re
import signal
from datetime import datetime, timedelta
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from kcr.api.batch import Job, is_finished
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap
from kcr.api.meta import Key
from kcr.client import Client, HttpTransport, load_config
from kcr.testing import eventually
from tests.e2e.processes import Running, Serve, Start
from tests.kit.api import binding
from tests.kit.harness import manifest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

ELECTION = (
    "--leader-elect", "--leader-elect-lease-duration", "3s", "--leader-elect-renew-deadline", "2s",
    "--leader-elect-retry-period", "200ms",
)  # fmt: skip
LEASE = Key("default", "kcr-controller-manager")

# Blocks the event loop, as a careless controller does, for as many seconds as the ConfigMap says.
BLOCKER = dedent(
    """
    import time
    import kcr
    from kcr.api.core import ConfigMap

    class Blocker:
        def __init__(self, manager):
            self._maps = manager.store(ConfigMap)

        async def reconcile(self, key):
            found = self._maps.get(key)
            if found is not None and "seconds" in found.data:
                time.sleep(float(found.data["seconds"]))
            return kcr.Result()

    def setup(manager):
        manager.add_controller("blocker", Blocker(manager), watches=[kcr.watch(ConfigMap)])
    """
)


# A program of one's own, which tells when it reconciles.
GREETER = dedent(
    """
    import structlog
    import kcr
    from kcr.api.core import ConfigMap

    class Greeter:
        async def reconcile(self, key):
            structlog.get_logger().info("reconciled", key=str(key))
            return kcr.Result()

    def setup(manager):
        manager.add_controller("greeter", Greeter(), watches=[kcr.watch(ConfigMap)])

    kcr.run(setup, leader_elect=True, leader_elect_resource_name="greeter")
    """
)


# Writes a ConfigMap of its own all the time. Its monotonic clock stands still while the process is stopped, as that of
# a suspended machine does; CLOCK_BOOTTIME and the wall clock move on.
SUSPENDED = dedent(
    """
    import os, threading, time

    real, lock, stood, last = time.monotonic, threading.Lock(), 0.0, time.monotonic()

    def monotonic():
        global stood, last
        with lock:
            now = real()
            stood += now - last if now - last > 1.2 else 0.0
            last = now
            return now - stood

    time.monotonic = monotonic

    import kcr
    from kcr.api.core import ConfigMap
    from kcr.api.meta import ObjectMeta

    class Writer:
        def __init__(self, manager):
            self._client, self._count = manager.client, 0

        async def reconcile(self, key):
            self._count += 1
            metadata = ObjectMeta(name=f"by-{os.getpid()}", namespace="default")
            await self._client.apply(ConfigMap(metadata=metadata, data={"writes": str(self._count)}))
            return kcr.Result(requeue_after=0.02)

    def setup(manager):
        writer = manager.add_controller("writer", Writer(manager))
        writer.queue.add(kcr.Key("default", "all"))

    kcr.run(setup, leader_elect=True, leader_elect_resource_name="writer")
    """
)


# A library's thread that works on, whoever leads.
WORKS_ON = dedent(
    """
    import threading, time
    import kcr

    def pump():
        while True:
            time.sleep(0.1)

    class Idle:
        async def reconcile(self, key):
            return kcr.Result()

    def setup(manager):
        manager.add_controller("idle", Idle()).queue.add(kcr.Key("default", "all"))
        threading.Thread(target=pump, name="metrics pump").start()

    kcr.run(setup, leader_elect=True, leader_elect_resource_name="idle")
    """
)


async def standing_by(run: Running) -> None:
    await eventually(lambda: "new leader elected" in run.err, seconds=30)


def leads(run: Running) -> bool:
    return "workers run" in run.err


def identity(run: Running) -> str:
    found = re.search(r'"identity":"([^"]+)"', run.err)
    assert found is not None, run.err
    return found[1]


async def holder(client: Client) -> tuple[str, int | None]:
    spec = (await client.get(Lease, LEASE)).spec
    return spec.holder_identity, spec.lease_transitions


async def test_standby_takes_over_after_kill_and_after_stop(kcr: Start, serve: Serve) -> None:
    async with serve(runtime="process") as path:
        kubeconfig = str(path)
        run = ("run", "--take-over", "--kubeconfig", kubeconfig, *ELECTION)
        async with kcr(*run) as first, HttpTransport(load_config(kubeconfig)) as transport:
            client = Client(transport)
            await first.ready()
            async with kcr(*run) as second:
                await standing_by(second)
                assert not leads(second)
                await first.stop(signal.SIGKILL)
                await second.ready()
                assert await holder(client) == (identity(second), 1)
                async with kcr(*run) as third:
                    await standing_by(third)
                    assert await second.stop() == 0
                    await third.ready()
                    # The Lease was released: the standby did not wait for its expiry.
                    assert await holder(client) == (identity(third), 2)
                    assert "released lease" in second.err
                    await client.create_manifest(Job, manifest(), "default")

                    async def is_over() -> bool:
                        jobs = await client.list(Job)
                        return bool(jobs) and all(map(is_finished, jobs))

                    await eventually(is_over, seconds=30)


@pytest.mark.soak
async def test_loop_blocked_for_long_loses_the_lease_and_not_before(
    kcr: Start, serve: Serve, tmp_path: Path
) -> None:  # CM-36
    (tmp_path / "blocker.py").write_text(BLOCKER)
    async with serve(runtime="process") as path:
        kubeconfig = str(path)
        run = ("run", "--kubeconfig", kubeconfig, "--controllers", "blocker:setup", *ELECTION)
        async with kcr(*run, folder=tmp_path) as first, HttpTransport(load_config(kubeconfig)) as transport:
            client = Client(transport)
            await first.ready()
            async with kcr("run", "--kubeconfig", kubeconfig, *ELECTION) as second:
                await standing_by(second)
                # As long as the heartbeat may be late, and nearly as long as the lease lasts.
                await block(client, "a", 1.8)
                await eventually(lambda: "event loop was blocked" in first.err, seconds=30)
                assert await holder(client) == (identity(first), 0)
                await block(client, "b", 60)
                await second.ready()
                assert (await holder(client))[0] == identity(second)
                assert await first.end() == 1
                assert "event loop is blocked, ending by force" in first.err
                assert "blocker.py:13 reconcile" in first.err


@pytest.mark.soak
async def test_thread_of_a_library_does_not_outlive_a_lost_lease(kcr: Start, serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "works_on.py").write_text(WORKS_ON)
    async with serve() as path:
        options = ("--kubeconfig", str(path), *ELECTION[1:])
        async with (
            kcr(*options, program="works_on.py", folder=tmp_path) as run,
            HttpTransport(load_config(str(path))) as transport,
        ):
            await run.ready()
            taken = {"spec": {"holderIdentity": "another"}}
            await Client(transport).merge_patch(Lease, Key("default", "idle"), taken)
            assert await run.end() == 1
            told, named = run.err.splitlines()[-2:]
            assert told.startswith("works_on.py: lease default/idle: "), told
            line = json.loads(named)
            assert (line["event"], line["thread"]) == ("thread does not end", "metrics pump")
            assert line["where"].endswith("works_on.py:7 pump")


async def block(client: Client, name: str, seconds: float) -> None:
    data = {"metadata": {"name": name}, "data": {"seconds": str(seconds)}}
    await client.create_manifest(ConfigMap, data, "default")


@pytest.mark.soak
async def test_replica_that_was_stopped_for_long_writes_nothing_more(kcr: Start, serve: Serve) -> None:  # CM-36
    async with serve(runtime="process") as path:
        kubeconfig = str(path)
        run = ("run", "--kubeconfig", kubeconfig, *ELECTION)
        async with kcr(*run) as first:
            await first.ready()
            async with kcr(*run) as second:
                await standing_by(second)
                first.send(signal.SIGSTOP)
                await second.ready()
                first.send(signal.SIGCONT)
                assert await first.end() == 1
                last = first.err.splitlines()[-1]
                assert last.startswith("kcr: lease default/kcr-controller-manager:"), last
                assert "Traceback" not in first.err


@pytest.mark.soak
async def test_leader_of_a_suspended_machine_writes_nothing_more(
    kcr: Start, serve: Serve, tmp_path: Path
) -> None:  # CM-36
    (tmp_path / "suspended.py").write_text(SUSPENDED)
    async with serve(runtime="process") as path:
        kubeconfig = str(path)
        # Between two renewals there is time for many writes.
        options = ("--kubeconfig", kubeconfig, *ELECTION[1:5], "--leader-elect-retry-period", "1.5s")
        async with (
            kcr(*options, program="suspended.py", folder=tmp_path) as first,
            HttpTransport(load_config(kubeconfig)) as transport,
        ):
            client, mine = Client(transport), Key("default", f"by-{first.process.pid}")

            async def writes() -> int:
                return int((await client.get(ConfigMap, mine)).data["writes"])

            await first.ready()
            async with kcr(*options, program="suspended.py", folder=tmp_path) as second:
                await standing_by(second)
                first.send(signal.SIGSTOP)
                await second.ready()
                before = await writes()
                assert before > 0
                first.send(signal.SIGCONT)
                assert await first.end() == 1
                # What the kernel had on its way when the process was stopped may arrive.
                assert await writes() - before <= 1
                assert "writes refused until the lease is renewed" in first.err


@pytest.mark.soak
async def test_standby_without_rights_on_the_lease_does_not_start(kcr: Start, serve: Serve, tmp_path: Path) -> None:
    async with serve(authorization="rbac") as path:
        async with HttpTransport(load_config(str(path))) as transport:
            # All that the controllers need, and nothing of leader election.
            rule = {"apiGroups": ["", "batch"], "resources": ["*"], "verbs": ["*"]}
            for plural, body in {
                "clusterroles": {"metadata": {"name": "jobs"}, "rules": [rule]},
                "clusterrolebindings": binding("jobs", "ClusterRole", "jobs", "User:operator"),
            }.items():
                target = f"/apis/rbac.authorization.k8s.io/v1/{plural}"
                await Client(transport).request("POST", target, json.dumps(body).encode())
        config = yaml.safe_load(path.read_text())
        config["users"][0]["user"]["as"] = "operator"
        (tmp_path / "operator").write_text(yaml.safe_dump(config))
        async with kcr("run", "--kubeconfig", str(tmp_path / "operator"), *ELECTION) as run:
            assert await run.end() == 1
            (line,) = run.err.splitlines()
            assert (
                'refuses: leases.coordination.k8s.io "kcr-controller-manager" is forbidden: cannot get, update '
                'resource "leases" in API group "coordination.k8s.io" in the namespace "default", and leader election '
                "needs it: "
                "grant it with a Role or ClusterRole"
            ) in line


def moment(run: Running, event: str) -> datetime:
    """Return when a process logged an event for the first time."""
    lines = (json.loads(line) for line in run.err.splitlines() if line.startswith("{"))
    return next(datetime.fromisoformat(line["timestamp"]) for line in lines if line["event"] == event)


@pytest.mark.soak
async def test_program_of_ones_own_hands_over_to_warm_caches(kcr: Start, serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "greeter.py").write_text(GREETER)
    async with serve(runtime="process") as path:
        options = ("--kubeconfig", str(path), *ELECTION[1:])
        async with kcr(*options, program="greeter.py", folder=tmp_path) as first:
            await first.ready()
            async with kcr(*options, program="greeter.py", folder=tmp_path) as second:
                await standing_by(second)
                assert "reconciled" not in second.err
                assert await first.stop() == 0
                await eventually(lambda: "reconciled" in second.err)
                elected = moment(second, "successfully acquired lease")
                assert moment(second, "reconciled") - elected < timedelta(seconds=0.1)
                # A retry period is 0.2 s here; the machine may be busy.
                assert elected - moment(first, "released lease") < timedelta(seconds=1)
