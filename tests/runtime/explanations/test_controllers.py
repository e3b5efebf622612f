"""What `kcr explain` prints of objects whose controllers fail, repeat themselves or stand still, whole.

The controller says so itself, at its debug port: no headline contradicts it.
"""

import asyncio
import random
import re
from collections.abc import Mapping, Sequence
from functools import reduce

import msgspec
import pytest

import kcr
from kcr.api.batch import Job
from kcr.api.core import ConfigMap, Namespace
from kcr.api.explanation import Code, Explanation, merged
from kcr.app.plugins import attach
from kcr.cli.objects.explain import lines_of
from kcr.cli.objects.inside import ControllerView, Inside
from kcr.cli.objects.kinds.controllers import findings
from kcr.cli.objects.look import Shown
from kcr.cli.target import ObjectName
from kcr.controllers.job.controller import Options, setup
from kcr.serving.debug.state import KeyDetail
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.debug_states import NOW, controller_state, debug_state, key_state, loop_state
from tests.kit.explanations import explained_object, screen, text
from tests.kit.harness import manifest
from tests.kit.open_manager import OpenManager

KEY = kcr.Key("default", "wall")
FINALIZER = "example.dev/dns"


class Walls:
    """A reconciler of ConfigMaps that goes wrong in the way that their data say."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client.with_options(field_manager="painter")
        self._walls = manager.store(ConfigMap)
        self._coats = 0

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        wall = self._walls.get(key)
        match wall and wall.data.get("trouble"):
            case "height":
                await self.measure("two metres")
            case "service":
                raise ConnectionError("dns.example.dev: connection refused")
            case "paint":
                self._coats += 1
                await asyncio.sleep(0.02)
                await self._client.merge_patch(ConfigMap, key, {"data": {"color": f"shade {self._coats}"}})
            case "slow":
                await self.call_the_service()
        return kcr.Result()

    async def call_the_service(self) -> None:
        await asyncio.Event().wait()

    async def measure(self, height: str) -> int:
        return int(height)


async def with_trouble(cluster: EmbeddedCluster, clock: VirtualClock, trouble: str, seconds: float) -> str:
    """Return what is printed of a wall with a trouble, after so many seconds."""
    manager = OpenManager(cluster.client, clock=clock, random=random.Random(0))
    manager.add_controller("walls", Walls(manager), watches=[kcr.watch(ConfigMap)])
    async with manager.running():
        wall = ConfigMap(metadata=kcr.ObjectMeta(name="wall", namespace="default"), data={"trouble": trouble})
        if trouble == "service":
            wall = msgspec.structs.replace(
                wall, metadata=msgspec.structs.replace(wall.metadata, finalizers=(FINALIZER,))
            )
        await cluster.client.apply(wall)
        if trouble == "service":
            await cluster.client.delete(ConfigMap, KEY)
        await clock.advance(seconds)
        return await explained_object(cluster.client, clock, "cm/wall", manager=manager)


@pytest.mark.kcr_virtual
async def test_hot_loop_goes_before_silence(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    assert await with_trouble(kcr_cluster, kcr_clock, "paint", 10) == text("""
        configmap default/wall: is reconciled without end by controller walls (hot loop): each write
          enqueues the key again
          why         data.color of configmaps default/wall by painter
          remedy      write only when something else differs
          controller  walls: running for 0s at worker.py:1 _process > test_controllers.py:1 reconcile >
                        tasks.py:1 sleep
                      at kcr run 1.0, pid 1
    """)


@pytest.mark.kcr_virtual
async def test_error_of_the_users_code_is_told_with_its_line(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    assert await with_trouble(kcr_cluster, kcr_clock, "height", 30) == text("""
        configmap default/wall: controller walls fails, 13 times in a row: ValueError: invalid literal for
          int() with base 10: 'two metres' at test_controllers.py:1 in measure
          controller  walls: in backoff after 13 failures in a row: retried in 10s
                      last error, 9s ago: ValueError: invalid literal for int() with base 10: 'two metres'
                        at test_controllers.py:1 in measure
                      at kcr run 1.0, pid 1
    """)


@pytest.mark.kcr_virtual
async def test_finalizer_whose_service_is_down_is_named(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    assert await with_trouble(kcr_cluster, kcr_clock, "service", 30) == text("""
        configmap default/wall: controller walls fails, 13 times in a row: ConnectionError: dns.example.dev:
          connection refused at test_controllers.py:1 in reconcile
          next        it is gone when its controller has removed the finalizer
          why         it has been terminating for 30s, and waits for its finalizer example.dev/dns
          remedy      see whether the controller of example.dev runs, and what its log says
                      or give up what the finalizer guards:
                        kubectl -n default patch configmaps wall --type=merge -p '{"metadata":{"finalizers":null}}'
          controller  walls: in backoff after 13 failures in a row: retried in 10s
                      last error, 9s ago: ConnectionError: dns.example.dev: connection refused at
                        test_controllers.py:1 in reconcile
                      at kcr run 1.0, pid 1
    """)


@pytest.mark.kcr_virtual
async def test_events_that_a_predicate_has_dropped_are_named(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    def is_painted(old: ConfigMap | None, new: ConfigMap | None) -> bool:
        return old is None or new is None or old.data.get("color") != new.data.get("color")

    manager = OpenManager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0))
    manager.add_controller("walls", Walls(manager), watches=[kcr.watch(ConfigMap, predicate=is_painted)])
    async with manager.running():
        await kcr_cluster.client.create(ConfigMap(metadata=kcr.ObjectMeta(name="wall", namespace="default")))
        await kcr_cluster.client.create(ConfigMap(metadata=kcr.ObjectMeta(name="wall-2", namespace="default")))
        for number in range(5):
            await kcr_clock.advance(1)
            for name in ("wall", "wall-2"):
                change = {"data": {"size": str(number)}}
                await kcr_cluster.client.merge_patch(ConfigMap, KEY._replace(name=name), change)
        await kcr_clock.advance(1)
        shown = await explained_object(kcr_cluster.client, kcr_clock, "cm/wall", manager=manager)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    place = next(number for number, line in enumerate(lines) if line.startswith("controller walls: idle"))
    dropped = [line for line in lines[place:] if "dropped an event" in line]
    assert len(dropped) == 3
    assert re.fullmatch(r"is_painted dropped an event: \d+→\d+, 1s ago", dropped[0])


@pytest.mark.kcr_virtual
async def test_key_that_runs_for_long_is_told_with_the_users_own_line(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    assert await with_trouble(kcr_cluster, kcr_clock, "slow", 81) == text("""
        configmap default/wall: has been in a reconcile of controller walls for 81s, at
          test_controllers.py:1 reconcile > test_controllers.py:1 call_the_service > locks.py:1 wait
          remedy      give the call a timeout: async with asyncio.timeout(10)
          controller  walls: running for 81s at test_controllers.py:1 reconcile > test_controllers.py:1
                        call_the_service > locks.py:1 wait
                      at kcr run 1.0, pid 1
    """)


def test_blocked_loop_goes_before_silence() -> None:
    # Of values: a test cannot block its own loop, and tests/runtime/test_debug_blocked.py has what the port says then.
    state = debug_state(
        controller_state(name="walls", kinds=("configmaps",)), leadership=None,
        loop=loop_state(lag_seconds=7.2, blocked_at="walls.py:40 reconcile > walls.py:52 crunch"),
    )  # fmt: skip
    detail = KeyDetail(
        controller="walls", state=key_state("default/wall", "queued", queued_seconds=6.0), runs=(), unconfirmed=(),
        explanation=None, explanation_error="",
    )  # fmt: skip
    inside = Inside(state, (ControllerView(detail, None),))
    seen = Explanation(Code.HEALTHY, "has existed for 7s, and nothing suggests trouble")
    shown = Shown(reduce(merged, findings(inside), seen), (), ())
    assert screen(lines_of(ObjectName(ConfigMap, "wall"), KEY, shown, NOW, inside)) == text("""
        configmap default/wall: waits: the event loop of kcr run, pid 1, has been blocked for 7s at
          walls.py:1 reconcile > walls.py:1 crunch
          why         while that line runs, no key is reconciled and no watch is read
          remedy      await what blocks, or give it a thread: await asyncio.to_thread(function, …)
          controller  walls: queued for 6s at priority 0 (Job updated)
                      at kcr run 1.0, pid 1
    """)


RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = {"kind": "ServiceAccount", "namespace": "ns", "name": "a"}


async def grant(client: kcr.Client, rules: Sequence[Mapping[str, object]]) -> None:
    """Grant the rights of some rules to the service account ns/a."""
    role = {"metadata": {"name": "kcr"}, "rules": rules}
    await client.request("POST", f"{RIGHTS}/clusterroles", msgspec.json.encode(role))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kcr"}
    binding = {"metadata": {"name": "kcr"}, "roleRef": reference, "subjects": [ACCOUNT]}
    await client.request("POST", f"{RIGHTS}/clusterrolebindings", msgspec.json.encode(binding))


READS = {"apiGroups": ["", "batch"], "resources": ["jobs", "pods", "configmaps"], "verbs": ["get", "list", "watch"]}


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(authorization="rbac")
async def test_missing_rights_of_the_job_controller_are_granted_at_once(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await grant(kcr_cluster.client, [READS])
    own = kcr_cluster.client_as("system:serviceaccount:ns:a")
    manager = OpenManager(own, clock=kcr_clock, random=random.Random(0))
    attach({"job": setup}, manager, {}, take_over=True)
    async with manager.running():
        await kcr_cluster.client.create_manifest(Job, manifest(), "default")
        await kcr_clock.advance(30)
        assert await explained_object(kcr_cluster.client, kcr_clock, "job/pi", manager=manager) == text("""
            job default/pi: cannot create pods: their controller has no right to create them
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 0 active (0 ready)
              next        in 1s: tries again to create 1 pod
              why         15s ago, 5 times: Error creating: pods is forbidden: User "system:serviceaccount:ns:a"
                            cannot create resource "pods" in API group "" in the namespace "default"
                          controller job lacks the right to patch jobs/status
              remedy      grant all that it needs:
                            kcr rbac generate --controllers job --namespace default --service-account ns/a |
                            kubectl apply -f -
              controller  job: in backoff after 5 failures in a row: retried in 1s
                          last error, 15s ago: ForbiddenError: jobs.batch "pi" is forbidden: User
                            "system:serviceaccount:ns:a" cannot patch resource "jobs/status" in API group
                            "batch" in the namespace "default"
                          at kcr run 1.0, pid 1
        """)


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(authorization="rbac")
async def test_missing_rights_of_a_users_controller_are_granted_with_events(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    await grant(kcr_cluster.client, [READS])
    own = kcr_cluster.client_as("system:serviceaccount:ns:a")
    manager = OpenManager(own, clock=kcr_clock, random=random.Random(0))
    manager.add_controller("walls", Walls(manager), watches=[kcr.watch(ConfigMap)])
    async with manager.running():
        metadata = kcr.ObjectMeta(name="wall", namespace="default")
        await kcr_cluster.client.create(ConfigMap(metadata=metadata, data={"trouble": "paint"}))
        await kcr_clock.advance(5)
        found = await explained_object(kcr_cluster.client, kcr_clock, "cm/wall", manager=manager)
    assert found == text("""
        configmap default/wall: controller walls lacks the right to patch configmaps
          remedy      grant what is missing, and to write events:
                        kubectl -n default create role a-configmaps --verb=patch --resource=configmaps &&
                        kubectl -n default create rolebinding a-configmaps --role=a-configmaps --serviceaccount=ns:a &&
                        kubectl -n default create role a-events --verb=create,patch --resource=events &&
                        kubectl -n default create rolebinding a-events --role=a-events --serviceaccount=ns:a
          controller  walls: in backoff after 10 failures in a row: retried now
                      last error, 2s ago: ForbiddenError: configmaps "wall" is forbidden: User
                        "system:serviceaccount:ns:a" cannot patch resource "configmaps" in API group "" in
                        the namespace "default"
                      at kcr run 1.0, pid 1
    """)


@pytest.mark.kcr_virtual
async def test_finished_job_waits_for_nothing(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager = OpenManager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0))
    setup(manager, Options(take_over=True))
    async with manager.running():
        await kcr_cluster.client.create_manifest(Job, manifest(activeDeadlineSeconds=600), "default")
        await kcr_clock.advance(30)
        assert await explained_object(kcr_cluster.client, kcr_clock, "job/pi", manager=manager) == text("""
            job default/pi: Complete for 30s
              wanted      1 completion, 1 pod at once, backoffLimit 6, activeDeadlineSeconds 600
              present     1 succeeded, 0 failed
              next        stays until a user deletes it: it has no ttlSecondsAfterFinished
              why         CompletionsReached: Reached expected number of succeeded pods
              conditions  SuccessCriteriaMet (CompletionsReached), 30s ago
                          Complete (CompletionsReached), 30s ago
              events      30s ago   Normal SuccessfulCreate: Created pod: pi-x
                          30s ago   Normal Completed: Job completed
        """)


@pytest.mark.kcr_virtual
async def test_stuck_namespace_names_finalizer_and_object(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    await client.create(Namespace(metadata=kcr.ObjectMeta(name="old")))
    held = kcr.ObjectMeta(name="records", namespace="old", finalizers=(FINALIZER,))
    await client.create(ConfigMap(metadata=held))
    await client.delete(Namespace, kcr.Key("", "old"))
    await kcr_clock.advance(60)
    assert await explained_object(client, kcr_clock, "ns/old") == text("""
        namespace old: has been terminating for 60s, and waits for the finalizer example.dev/dns of 1 object
          present     phase Terminating
          next        it is gone when all objects in it are
          why         configmap records is left, held by example.dev/dns
                      NamespaceContentRemaining, 60s ago: Some resources are remaining: configmaps. has 1
                        resource instances
                      NamespaceFinalizersRemaining, 60s ago: Some content in the namespace has finalizers
                        remaining: example.dev/dns in 1 resource instances
          remedy      see whether the controller of example.dev runs, and what its log says
                      see the object: kcr explain -n old configmaps/records
                      or give up what the finalizer guards:
                        kubectl -n old patch configmaps records --type=merge -p '{"metadata":{"finalizers":null}}'
    """)
