"""Controllers on an API server that a kubeconfig, or the pod they run in, names."""

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

import click

from kcr.app.checks import Wanted, ask_version, check_cluster, needs_of
from kcr.app.elections import ElectionSettings, make_elector
from kcr.app.logs import configure_logs
from kcr.app.permissions import Permissions
from kcr.app.plugins import Setup, attach
from kcr.app.process import fast_loop, run_to_end, tune_gc
from kcr.app.startup import check_access, check_lease, explain_failure
from kcr.client import Client, HttpTransport, RateLimit, load_config
from kcr.client.auth.cluster import ClusterConfig
from kcr.client.auth.credentials import PluginCredentials, PluginSpec
from kcr.client.auth.exec_policy import ExecPolicy
from kcr.debug.access import DebugOptions
from kcr.endpoint import SecureServing, parse_address
from kcr.errors import ApiError, ConfigError, TransportError
from kcr.log import get_logger
from kcr.manager import Manager
from kcr.metrics import Metrics


class Settings(NamedTuple):
    """What every program with controllers has options for; `kcr.run` explains each."""

    kubeconfig: str | None = None
    context: str | None = None
    exec_plugins: ExecPolicy | None = None
    namespace: str = ""
    kube_api_qps: float = 0.0
    kube_api_burst: int = 100
    metrics_bind_address: str = "0"
    metrics_secure: bool = False
    metrics_cert_path: str = ""
    metrics_cert_name: str = "tls.crt"
    metrics_cert_key: str = "tls.key"
    health_probe_bind_address: str = "0"
    ready_file: Path | None = None
    log_format: str | None = None
    log_level: str = "info"
    dry_run: Literal["none", "server"] = "none"
    election: ElectionSettings = ElectionSettings()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings that hold these values, by option.

        Raises:
            click.UsageError: Options contradict each other.
        """
        if values["metrics_secure"] and parse_address(values["metrics_bind_address"]) is None:
            raise click.UsageError("--metrics-secure: metrics are served nowhere: add --metrics-bind-address=:8443")
        if values["metrics_cert_path"] and not values["metrics_secure"]:
            raise click.UsageError("--metrics-cert-path has no effect without --metrics-secure: add that as well")
        election = ElectionSettings(**{name: values[name] for name in ElectionSettings._fields})
        return cls(**{name: values[name] for name in cls._fields if name != "election"}, election=election)

    def shown(self) -> dict[str, object]:
        """Return the settings by option, for the debug pages: names of files and addresses, no secrets."""
        own = {name: value for name, value in self._asdict().items() if name != "election"}
        return own | self.election._asdict()

    @property
    def serving(self) -> SecureServing | None:
        """How metrics are protected, None when they are not."""
        if not self.metrics_secure:
            return None
        return SecureServing(self.metrics_cert_path, self.metrics_cert_name, self.metrics_cert_key)


def run(
    settings: Settings, find: Callable[[], Mapping[str, Setup]], given: Mapping[str, object], *, command: str = "",
    **logged: object,
) -> None:  # fmt: skip
    """Run controllers until one of them fails or a signal ends the process.

    Args:
        settings: How to connect and to operate.
        find: Returns the setup functions by what errors call them; called once the logs are set up.
        given: Values of the command line for the options of the setup functions, by field name.
        command: What runs, for the debug pages; empty for the program's name.
        logged: What the line about the connection says besides server and version.

    Raises:
        ConfigError: A setting or the server cannot be used; the message has the cause and the remedy.
        click.UsageError: An option of a plugin cannot be used.
    """
    configure_logs(settings.log_format, settings.log_level)
    if settings.ready_file:
        clear(settings.ready_file)
    setups = find()
    debug = DebugOptions(command=command, options={**settings.shown(), **given, **logged})
    run_to_end(lambda: _run(settings, setups, given, logged, debug), fast_loop())


async def _run(
    settings: Settings, setups: Mapping[str, Setup], given: Mapping[str, object], logged: Mapping[str, object],
    debug: DebugOptions,
) -> int:  # fmt: skip
    config = load_config(settings.kubeconfig, settings.context, exec_plugins=settings.exec_plugins)
    election = settings.election._replace(leader_elect=False) if settings.dry_run == "server" else settings.election
    load = partial(load_again, config, settings.kubeconfig, settings.context, settings.exec_plugins)
    elector = make_elector(election, load, config.namespace)
    metrics, host = Metrics(), urlsplit(config.server).netloc
    limiter = None
    if settings.kube_api_qps:
        limiter = RateLimit(settings.kube_api_qps, settings.kube_api_burst, on_wait=metrics.rate_limiter(host))
    if isinstance(config.credentials, PluginCredentials):
        metrics.exec_plugin(config.credentials.calls)
        get_logger().info("credential plugin", command=config.credentials.spec.command, source=config.origin)
    async with HttpTransport(config, on_resolve=metrics.resolver) as transport:
        client = Client(transport, limiter=limiter, observer=metrics.requests(host))
        if settings.dry_run == "server":
            client = client.with_options(dry_run=True)
            get_logger().info("dry run: the server checks what is written, and keeps nothing")
        manager = Manager(
            client, metrics=metrics, random=random.Random(), namespace=settings.namespace, leader_election=elector
        )
        try:
            server = await ask_version(client, manager.clock)
            manager.expose(
                metrics=settings.metrics_bind_address, probes=settings.health_probe_bind_address,
                metrics_secure=settings.serving, debug=debug._replace(server=config.server),
            )  # fmt: skip
            # The embedded server has no controllers of its own beside which others could not run.
            take_over = server.version.endswith("+kcr") or given.get("take_over")
            attach(setups, manager, os.environ, **{**given, "take_over": take_over})
            wanted = Wanted(
                manager.rights, settings.namespace, takes_over=bool(given.get("take_over")),
                lease=elector.config.key if elector else None, metrics_secure=settings.metrics_secure,
            )  # fmt: skip
            permissions = Permissions(client)
            await permissions.ask(needs_of(wanted))
            await check_access(client, manager.selections, permissions)
            if elector is not None:
                await check_lease(permissions, elector.config.key)
            for finding in await check_cluster(client, wanted, manager.clock, permissions, server):
                if finding.is_wrong:
                    get_logger().warning("cluster check failed", check=finding.check, finding=finding.text)
        except (ApiError, TransportError) as error:
            raise ConfigError(explain_failure(error, config.server, config.origin)) from error
        if settings.ready_file:
            manager.add(ReadyFile(manager, settings.ready_file), needs_leader_election=False)
        get_logger().info("connected", server=config.server, version=server.version, **logged)
        tune_gc()
        await manager.run()
    return 0


def load_again(
    confirmed: ClusterConfig, kubeconfig: str | None, context: str | None, policy: ExecPolicy | None
) -> ClusterConfig:
    """Return the configuration once more, with credentials of its own, without a second question.

    Args:
        confirmed: What was loaded at first; the user has been asked about its plugin.
        kubeconfig: As of `load_config`.
        context: As of `load_config`.
        policy: As of `load_config`.

    Raises:
        ConfigError: The kubeconfig names another plugin than the one that the user was asked about.
    """
    config = load_config(kubeconfig, context, exec_plugins="always" if policy == "ask" else policy)
    if policy == "ask" and _plugin_of(config) not in (None, _plugin_of(confirmed)):
        raise ConfigError(f"{config.origin}: the credential plugin is no longer the one you allowed: start again")
    return config


def _plugin_of(config: ClusterConfig) -> PluginSpec | None:
    return config.credentials.spec if isinstance(config.credentials, PluginCredentials) else None


def clear(ready_file: Path) -> None:
    """Remove a ready file that a killed process left behind: there is none before the workers run.

    Raises:
        ConfigError: There can be no such file.
    """
    try:
        with NamedTemporaryFile(dir=ready_file.parent):
            ready_file.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"ready file {ready_file}: {error.strerror}: name a file that can be written") from error


class ReadyFile:
    """A file that exists while the caches are synced and the workers run, or stand by for leadership."""

    def __init__(self, manager: Manager, path: Path) -> None:
        self._manager = manager
        self._path = path

    async def run(self) -> None:
        """Create the file when the manager is ready, and remove it at the end."""
        await self._manager.wait_ready()
        self._path.touch()
        try:
            await asyncio.Event().wait()
        finally:
            self._path.unlink(missing_ok=True)
