"""`kcr run`: controllers against the API server that a kubeconfig, or the pod they run in, names."""

import asyncio
import os
import random
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlsplit

import click
import structlog

from kcr.cli import options as shared
from kcr.cli.contact import check_access, remedy
from kcr.cli.logs import configure_logs
from kcr.cli.plugins import Setup, attach, find_plugins
from kcr.cli.process import fast_loop, run_to_end, spare_the_collector
from kcr.client import Client, HttpTransport, RateLimit, load_config
from kcr.errors import ApiError, ConfigError, TransportError
from kcr.manager import Manager
from kcr.metrics import Metrics


@click.command(
    "run",
    context_settings={"auto_envvar_prefix": "KCR", "show_default": True},
    epilog="Exit codes: 0 after SIGTERM or SIGINT, 1 on failure, 2 on a wrong option.",
)
@shared.controllers_option("job")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    show_envvar=True,
    show_default="KUBECONFIG, in-cluster, ~/.kube/config",
    help="Kubeconfig to use.",
)
@click.option(
    "--context", metavar="NAME", show_envvar=True, show_default="its current one", help="Context of the kubeconfig."
)
@click.option(
    "--namespace", metavar="NAME", default="", show_envvar=True, show_default="all", help="Namespace to work in."
)
@click.option(
    "--take-over",
    is_flag=True,
    show_envvar=True,
    help="Take the place of the cluster's own controllers: reconcile Jobs without spec.managedBy too.",
)
@shared.workers_option
@shared.feature_gates_option
@click.option(
    "--kube-api-qps",
    type=click.FloatRange(min=0),
    default=0.0,
    show_envvar=True,
    show_default="no limit",
    help="Requests per second in the long run.",
)
@click.option(
    "--kube-api-burst",
    type=click.IntRange(min=1),
    default=100,
    show_envvar=True,
    help="Requests at once, under a limit.",
)
@shared.address_option("--metrics-bind-address", "/metrics")
@shared.address_option("--health-probe-bind-address", "/healthz, /livez and /readyz")
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    show_envvar=True,
    help="File made once the caches are synced and the workers run.",
)
@shared.log_options("info")
def command(**values: Any) -> int:
    """Run controllers against a Kubernetes API server."""
    configure_logs(values["log_format"], values["log_level"])
    names = shared.names(values["controllers"])
    if not names:
        raise click.UsageError("--controllers names none")
    if values["ready_file"]:
        clear(values["ready_file"])
    plugins = find_plugins(names)
    return run_to_end(lambda: _run(values, plugins), fast_loop()) or 0


async def _run(values: dict[str, Any], plugins: Mapping[str, Setup]) -> int:
    config = load_config(values["kubeconfig"], values["context"])
    limiter = RateLimit(values["kube_api_qps"], values["kube_api_burst"]) if values["kube_api_qps"] else None
    async with HttpTransport(config) as transport:
        metrics = Metrics()
        client = Client(transport, limiter=limiter, on_request=metrics.requests(urlsplit(config.server).netloc))
        manager = Manager(
            client,
            metrics=metrics,
            random=random.Random(),
            namespace=values["namespace"],
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        )
        try:
            version = await client.server_version()
            manager.embedded = version.endswith("+kcr")
            manager.expose(metrics=values["metrics_bind_address"], probes=values["health_probe_bind_address"])
            given = {name: values[name] for name in ("workers", "take_over", "feature_gates")}
            attach(plugins, manager, os.environ, **given)
            await check_access(client, manager.kinds, values["namespace"])
        except (ApiError, TransportError) as error:
            raise click.ClickException(remedy(error, config.server, config.origin)) from error
        if values["ready_file"]:
            manager.add(ReadyFile(manager, values["ready_file"]))
        structlog.get_logger().info("connected", server=config.server, version=version, controllers=[*plugins])
        spare_the_collector()
        await manager.run()
    return 0


def clear(ready_file: Path) -> None:
    """Remove a ready file that a process left behind which was killed; not even for a moment is there one.

    Raises:
        ConfigError: There can be no such file.
    """
    try:
        with NamedTemporaryFile(dir=ready_file.parent):
            ready_file.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"--ready-file {ready_file}: {error.strerror}: name a file that can be written") from error


class ReadyFile:
    """A file that exists while the caches are synced and the workers run."""

    def __init__(self, manager: Manager, path: Path) -> None:
        self._manager = manager
        self._path = path

    async def run(self) -> None:
        """Make the file when the manager is ready, and remove it at the end."""
        await self._manager.wait_ready()
        self._path.touch()
        try:
            await asyncio.Event().wait()
        finally:
            self._path.unlink(missing_ok=True)
