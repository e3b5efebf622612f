"""Scenarios side by side with kube-controller-manager, on a real control plane and in real time.

`KUBEBUILDER_ASSETS` names a folder with etcd, kube-apiserver and kube-controller-manager. Both controllers have Jobs of
one API server: kcr those with its name in `managedBy`.
"""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

from kcr.client import Client, ClusterConfig, HttpTransport
from kcr.clock import SystemClock
from kcr.controllers.job.controller import Options, setup
from kcr.errors import KcrError
from kcr_devcluster.testing.controlplane import (
    Assets,
    HealthEndpoint,
    control_plane,
    find_assets,
    free_port,
    running,
)
from tests.chaos.fuzz_jobs.beside import Found, Pace, Tell, compare, world_of
from tests.chaos.fuzz_jobs.scenarios import scenario_of
from tests.kit.environment import setting
from tests.kit.open_manager import OpenManager
from tests.kit.open_manager import running as running_manager

PROGRAM = "kube-controller-manager"
OURS = "kcr.dev/job-controller"
CONTROLLERS = ("job-controller", "garbage-collector-controller", "resourcequota-controller")
# How many scenarios at a time: they mostly wait.
TOGETHER = int(setting("KCR_FUZZ_TOGETHER", "24"))
# How long a policy may take to be enforced by every part of the API server, and a controller to see the end of a pod.
NOTICE_SECONDS = 3.0
# A controller that has more to do than usual makes others wait.
TRIES = 2


def find_program() -> tuple[Assets, Path] | None:
    """Return the programs to run, or None where there is no kube-controller-manager."""
    assets = find_assets(os.environ)
    if assets is None:
        return None
    program = assets.apiserver.with_name(PROGRAM)
    return (assets, program) if program.is_file() else None


@contextmanager
def both_controllers_plane(
    assets: Assets, program: Path, controllers: Sequence[str] = CONTROLLERS
) -> Iterator[ClusterConfig]:
    """Run etcd, kube-apiserver and kube-controller-manager with some of its controllers."""
    with tempfile.TemporaryDirectory(prefix="kcr-") as name:
        folder = Path(name)
        with control_plane(assets, folder) as started:
            port = free_port()
            assert started.config.ca is not None
            authority = started.config.ca.text
            command = [
                str(program), f"--kubeconfig={started.kubeconfig}", f"--controllers={','.join(controllers)}",
                "--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={port}",
                f"--tls-cert-file={folder / 'server.crt'}", f"--tls-private-key-file={folder / 'server.key'}",
                "--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-job-syncs=20",
            ]  # fmt: skip
            health = HealthEndpoint(f"https://127.0.0.1:{port}/healthz", authority)
            with running(command, folder / f"{PROGRAM}.log", health, start_seconds=60.0):
                yield started.config


async def run_beside(config: ClusterConfig, seeds: Iterable[int], tell: Tell = print) -> list[Found]:
    """Run scenarios side by side, and return the differences that no row explains."""
    waiting = iter(seeds)
    counts: Counter[str] = Counter()
    unknown: list[Found] = []
    async with HttpTransport(config) as transport, HttpTransport(config) as own:
        manager = OpenManager(Client(own), clock=SystemClock(), random=Random())
        setup(manager, Options(take_over=False))

        async def work() -> None:
            for seed in waiting:
                found = await _run(Client(transport), seed)
                counts.update({one.known for one in found} or {"equal"})
                unknown.extend(one for one in found if not one.known)
                for one in found:
                    if not one.known:
                        tell(str(one))

        async with running_manager(manager), asyncio.TaskGroup() as group:
            for _ in range(TOGETHER):
                group.create_task(work())
    tell(f"scenarios by what differed: {dict(counts)}")
    return unknown


async def _run(client: Client, seed: int, tell: Tell = lambda _: None) -> list[Found]:
    """Run one scenario; a difference without a row has to be seen twice."""
    found: list[Found] = []
    for attempt in range(TRIES):
        scenario, clock = scenario_of(seed), SystemClock()
        names = (f"upstream-{seed}-{attempt}", f"kcr-{seed}-{attempt}")
        worlds = [
            await world_of(client, clock, scenario, names[0]),
            await world_of(client, clock, scenario, names[1], managed_by=OURS),
        ]
        for world in worlds:
            world.policy_seconds = world.pause = NOTICE_SECONDS
            # Conditions have whole seconds.
            world.apart = 1.1
            # A success may end the pods that would succeed next, or end their creation.
            spec = scenario.job["spec"]
            world.at_once = 1 if "successPolicy" in spec or "completions" not in spec else world.at_once
            # Of pods that end together, those that are seen before the Job fails are its failed indexes.
            world.gone_at_once = 1 if "backoffLimitPerIndex" in spec else world.gone_at_once
        try:
            found = await compare(scenario, worlds[0], worlds[1], Pace(), tell)
        except* (KcrError, AssertionError) as error:
            found = [Found(seed, f"an error: {error!r}", "", ())]
        if all(one.known for one in found):
            break
    return found


async def tell_one(config: ClusterConfig, seed: int) -> list[Found]:
    """Run one scenario side by side, told step by step."""
    async with HttpTransport(config) as transport, HttpTransport(config) as own:
        manager = OpenManager(Client(own), clock=SystemClock(), random=Random())
        setup(manager, Options(take_over=False))
        async with running_manager(manager):
            return [one for one in await _run(Client(transport), seed, print) if not one.known]
