"""Controllers on an embedded cluster in the same process."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import tzinfo
from typing import NamedTuple

from kcr.api.meta import Key
from kcr.app.logs import configure_logs
from kcr.app.options import PluginOptions
from kcr.app.plugins import Setup, attach
from kcr.client import Client
from kcr.errors import ConfigError
from kcr.feature_gates import GENERIC_WORKLOAD, SHARDED_LIST_AND_WATCH
from kcr.manager import Manager
from kcr_devcluster.apiserver.http.pods.container_logs import end_of_log
from kcr_devcluster.apiserver.kinds.catalogue import PODS
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.effects.advice import absent_controller_warnings
from kcr_devcluster.cluster.faults import read_faults
from kcr_devcluster.dev.metric_history import Collector
from kcr_devcluster.dev.options import DevOptions
from kcr_devcluster.transport import InProcessTransport


class DevCluster(NamedTuple):
    """An embedded cluster that is served.

    Attributes:
        manager: Has the controllers, and does not run yet.
        client: The user's; it gets the warnings about fields without an effect in this cluster.
        kubeconfig: The text of the file with which others reach it.
        read_log: Returns the end of a container's log: of a pod, the container (empty for the only one), and at most
            so many bytes. Raises StatusError when there is none.
    """

    manager: Manager
    client: Client
    kubeconfig: str
    read_log: Callable[[Key, str, int], bytes]
    metrics: Collector

    def __repr__(self) -> str:
        """Show nothing of the kubeconfig, which is a secret."""
        return "DevCluster()"


@asynccontextmanager
async def dev_cluster(
    options: DevOptions, plugins: PluginOptions, setups: Mapping[str, Setup], zone: tzinfo
) -> AsyncIterator[DevCluster]:
    """Serve an embedded cluster for as long as the context lives.

    Args:
        options: Its parts.
        plugins: The options of all controllers; they take precedence over the environment.
        setups: The controllers that the manager gets, by name.
        zone: The zone of schedules that name none.

    Raises:
        ConfigError: The port, the data folder or the file of faults cannot be used. Also later, when the data folder
            cannot be written any more: the task that uses the context is cancelled then.
        click.UsageError: An option of a plugin cannot be used.
    """
    cluster = EmbeddedCluster(
        runtime=options.runtime,
        nodes=options.nodes,
        heartbeats=True,
        deployments=not options.no_controllers,
        quota_and_disruption=not options.no_controllers,
        legacy_apis=options.legacy_apis,
        terminated_pod_gc_threshold=options.terminated_pod_gc_threshold,
        authorization=options.authorization,
        gangs=GENERIC_WORKLOAD in plugins.feature_gates,
        kubernetes_version=options.kubernetes_version,
        sharded_list_and_watch=SHARDED_LIST_AND_WATCH in plugins.feature_gates,
        service_accounts="tokens" if options.authorization == "rbac" else "accounts",
        webhook_services=options.webhook_services,
        data_dir=options.data_dir,
        faults=read_faults(options.faults) if options.faults else None,
    )
    async with _ended_by_full_disk(cluster), cluster:
        if options.no_controllers:
            cluster.server.advisers.append(absent_controller_warnings)
        try:
            address = await cluster.serve(options.port, max_connections=options.max_connections)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise ConfigError(
                f"cannot listen on port {options.port} of 127.0.0.1: {reason}: name another with --port"
            ) from error
        manager = Manager(cluster.client, random=random.Random())
        attach(setups, manager, os.environ, **plugins.given(), cronjob_time_zone=zone)
        user = Client(InProcessTransport(cluster.server, advised=True))

        def read_log(pod: Key, container: str, limit: int) -> bytes:
            record = cluster.server.registry.find(PODS, pod.namespace, pod.name)
            return end_of_log(cluster.server.logs, record, container, limit)

        yield DevCluster(manager, user, address.kubeconfig, read_log, cluster.server.request_metrics)


@asynccontextmanager
async def _ended_by_full_disk(cluster: EmbeddedCluster) -> AsyncIterator[None]:
    """Cancel the task that uses the context when the data folder cannot be written, and say so instead.

    Nothing is lost by that, and without it every controller would report its own error again and again.

    Raises:
        ConfigError: It cannot be written.
    """
    task, reasons = asyncio.current_task(), list[str]()
    assert task is not None

    def end(reason: str) -> None:
        if not reasons:
            # The line that ends the process has the cause of all errors from here on.
            configure_logs("plain", "critical")
            task.cancel()
        reasons.append(reason)

    cluster.on_storage_failure(end)
    try:
        yield
    except BaseException as error:
        if not reasons:
            raise
        if isinstance(error, asyncio.CancelledError):
            task.uncancel()
        raise ConfigError(f"{reasons[0]}: free some space, and start it again: it continues from there") from error
