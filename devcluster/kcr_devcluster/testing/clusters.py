"""A cluster for tests of whole controllers: simulated pods, and the controllers that run beside the one under test.

```python
@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(controllers=["job"])
async def test_backup_makes_a_job_and_waits_for_it(kcr_cluster, kcr_clock):
    async with backup_manager(kcr_cluster, kcr_clock).running():
        await kcr_cluster.client.create(BACKUP)
        await eventually(backup_is_complete)
```
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random

from structlog.contextvars import get_contextvars

from kcr.app.plugins import Setup, attach, find_plugins
from kcr.arguments import checked
from kcr.clock import Clock
from kcr.manager import Manager
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.cluster.node.node import KUBELET
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.simulated import annotated_outcome
from kcr_devcluster.kinds import KindSource
from kcr_devcluster.options import Authorization
from kcr_devcluster.transport import COMPONENT

# How long a container runs where every pod finishes.
RUN_SECONDS = 1.0
_CONTROLLERS = "kcr-controllers"


@checked
@asynccontextmanager
async def simulated_cluster(  # noqa: PLR0913  # the options of the mark, all by name
    *,
    clock: Clock,
    random: Random,
    kinds: Sequence[KindSource] = (),
    controllers: Sequence[str | Callable[..., object]] = (),
    finish_pods: bool = False,
    deployments: bool = True,
    authorization: Authorization = "always-allow",
    nodes: int = 1,
    sharded_list_and_watch: bool = False,
) -> AsyncIterator[EmbeddedCluster]:
    """Run an embedded cluster whose node simulates its pods; the base of the fixture `kcr_cluster`.

    Pods of Jobs succeed at once, all others run until they are deleted. Annotations of a pod set its outcome
    (`sim.kcr.dev/exit-code: "1"`).

    Args:
        clock: The source of time.
        random: Where names and uids come from.
        kinds: Kinds that are served beside the built-in ones: classes, files of CustomResourceDefinitions, and folders
            of such files.
        controllers: The controllers that run in the cluster: names of plugins, such as `job`, `ttl` and `cronjob`, or
            functions `setup(manager)`. They reconcile all objects of their kinds.
        finish_pods: Whether every pod with another `restartPolicy` than `Always` succeeds after a second, unless its
            annotations say otherwise.
        deployments: Whether Deployments, ReplicaSets and ReplicationControllers are reconciled; else they are left to
            controllers of your own.
        authorization: Allow every request, or enforce roles and bindings (`rbac`). `client_as` of
            the cluster gives the client of a user; its `client` may do everything.
        nodes: How many nodes there are; `cluster.nodes["kcr-node-1"].silence()` cuts one off.
        sharded_list_and_watch: Whether lists and watches are limited by `shardSelector`, as with the feature gate
            ShardedListAndWatch; without it the parameter is ignored.
    """
    on_run = _succeed if finish_pods else None
    async with EmbeddedCluster(
        clock=clock,
        random=random,
        kinds=kinds,
        deployments=deployments,
        authorization=authorization,
        nodes=nodes,
        sharded_list_and_watch=sharded_list_and_watch,
        on_run=on_run,
    ) as cluster:
        if not controllers:
            yield cluster
            return
        client = cluster.client.with_options(field_manager=_CONTROLLERS)
        manager = Manager(client, clock=clock, random=Random(random.getrandbits(64)))
        attach(setups_of(controllers), manager, {}, take_over=True)
        async with manager.running():
            yield cluster


def is_of_cluster(manager: Manager) -> bool:
    """Return whether the manager whose task runs belongs to a cluster, and not to the program under test."""
    return manager.client.component in (COMPONENT, _CONTROLLERS) or get_contextvars().get("component") == KUBELET


def setups_of(controllers: Sequence[str | Callable[..., object]]) -> dict[str, Setup]:
    """Return the setup functions of controllers: of plugins by their names, and functions as they are."""
    setups = find_plugins(tuple(name for name in controllers if isinstance(name, str)))
    return setups | {repr(setup): setup for setup in controllers if not isinstance(setup, str)}


def _succeed(pod: KubeletPod, container: str, attempt: int) -> RunResult | None:
    if pod.spec.restart_policy == "Always":
        # It would only be restarted, later each time.
        return None
    return annotated_outcome(pod, container, attempt, RunResult(run_for=RUN_SECONDS))
