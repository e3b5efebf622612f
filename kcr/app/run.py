"""`kcr.run` and `kcr run`: controllers on the API server that a kubeconfig, or the pod they run in, names."""

import asyncio
import inspect
import os
import random
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import click
import msgspec

from kcr.app.checks import Wanted, ask_version, check_cluster, filter_finding, needs_of
from kcr.app.faults import one_line, run_command
from kcr.app.fields import given_as
from kcr.app.fields import options as program_options
from kcr.app.logs import configure_logs, open_standard_streams
from kcr.app.options import ProgramOptions, shown
from kcr.app.plugins import Setup, attach, warn_of_unknown_variables
from kcr.app.process import GracePeriod, fast_loop, run_to_end, tune_gc
from kcr.app.rbac import Permissions
from kcr.app.startup import (
    check_access,
    check_lease,
    check_shard_leases,
    choose_events_api,
    fixed_selections,
    serve_webhooks,
)
from kcr.arguments import check_fields, refuse
from kcr.client import Client, HttpTransport, Pressure, RateLimit, load_config
from kcr.client.cluster_config import ClusterConfig, explain_failure
from kcr.client.credentials import PluginCredentials, PluginSpec
from kcr.clock import SystemClock
from kcr.errors import ApiError, ConfigError, TransportError
from kcr.keywords import Flag, Keywords
from kcr.log import get_logger
from kcr.log.lines import flush_stderr
from kcr.manager import Manager
from kcr.metrics import Metrics
from kcr.scopes.leaderelection import ElectorThread, LeaderElectionConfig
from kcr.scopes.namespaces import Namespaces
from kcr.scopes.sharding import ShardedReplica, Sharding
from kcr.serving.debug.access import DebugOptions
from kcr.serving.ports import SecureServing


class _Keywords(ProgramOptions, frozen=True, kw_only=True):
    """The keywords of `kcr.run`."""

    args: Annotated[
        Sequence[str] | None, "Arguments to read the options from.", Flag(default="those of the command line")
    ] = None
    sharding: Annotated[Sharding | None, "The default of `shards`: `kcr.Sharding(shards=8)`."] = None
    namespaces: Annotated[
        Namespaces | None, "The namespaces to work in, which may change; `namespace` and `namespace_selector` win."
    ] = None


class _Program(NamedTuple):
    """A program to run: its options, its setup functions by name, and the other arguments of `run_controllers`."""

    options: ProgramOptions
    setups: Mapping[str, Setup]
    given: Mapping[str, object]
    logged: Mapping[str, object]
    debug: DebugOptions
    namespaces: Namespaces | None

    @property
    def watched(self) -> str | Namespaces:
        """The namespaces to watch, as a manager takes them."""
        if self.options.namespace_selector:
            return Namespaces(labels=self.options.namespace_selector)
        return self.options.namespace or self.namespaces or ""


@one_line
@Keywords(_Keywords)
def run(setup: Setup, options: _Keywords) -> None:
    """Run controllers as a program, until SIGTERM or SIGINT; an error is one line and exit code 1 or 2.

    Before the controllers run, the program checks that the server answers, serves every kind that they watch, and
    allows to list and watch it.

    The program has the options of `kcr run`, but those of kcr's own controllers (`--kube-api-qps`, …, and `--help`,
    which shows the docstring of `setup`), and reads the same variables (`KCR_KUBE_API_QPS`, …). Each is a keyword here
    as well: `kcr.run(setup, kube_api_qps=50)`. An option takes precedence over a variable, and a variable over a
    keyword.

    The process ends within five seconds of a signal or a failure, whatever threads libraries have left: these are named
    in the log. A program that does more after this call, or around it, ends by itself.

    A program with options of its own parses them first, and passes the arguments that are left, or none:
    `kcr.run(setup, args=[])`. The variables are read all the same.

    Args:
        setup: Adds the controllers to a manager: `setup(manager)`, or `setup(manager, options)`, where the annotation
            of `options` is a struct whose fields are read from `KCR_` and their names.
        options: The options of `kcr run` by name, and `args`.
    """
    check_fields("run", options, _Keywords.__annotations__)
    _refuse_running_loop()
    values = {name: value for name, value in msgspec.structs.asdict(options).items() if value is not None}
    name, arguments = Path(sys.argv[0]).name, list(values.pop("args", sys.argv[1:]))
    if (sharding := values.pop("sharding", None)) is not None:
        values.setdefault("shards", sharding.shards)
    namespaces = values.pop("namespaces", None)
    open_standard_streams()
    configure_logs(None, "info")

    @click.command(
        help=inspect.getdoc(setup) or "Run controllers against an API server.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    @program_options(ProgramOptions, **values)
    def command(**found: Any) -> None:
        run_controllers(ProgramOptions(**found), lambda: {"": setup}, {}, namespaces=namespaces)

    code = run_command(command, arguments, name, name, has_help=bool(arguments))
    flush_stderr()
    if code is not None:
        sys.exit(code)


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    refuse("run: an event loop runs already: call it outside of coroutines; in one, use `async with manager.running()`")


def run_controllers(
    options: ProgramOptions, find: Callable[[], Mapping[str, Setup]], given: Mapping[str, object], *, command: str = "",
    namespaces: Namespaces | None = None, **logged: object,
) -> None:  # fmt: skip
    """Run controllers until one of them fails or a signal ends the process.

    Args:
        options: How to connect and to operate.
        find: Returns the setup functions by name; called once the logs are set up.
        given: Values of the command line for the options of the setup functions, by field name.
        command: The name of the command, for the debug pages; empty for the program's name.
        namespaces: Those to work in if the options name none, and select none.
        logged: Fields of the line about the connection besides server and version.

    Raises:
        ConfigError: A setting or the server cannot be used; the message has the cause and the remedy.
        click.UsageError: Options contradict each other, or one of a plugin cannot be used.
    """
    _refuse_contradictions(options)
    configure_logs(options.log_format, options.log_level)
    if options.ready_file:
        clear(Path(options.ready_file))
    setups = find()
    warn_of_unknown_variables(setups, get_logger().warning)
    debug = DebugOptions(command=command, options={**shown(options), **given, **logged})
    grace = GracePeriod()
    program = _Program(options, setups, given, logged, debug, namespaces)
    run_to_end(lambda: _run(program, grace), fast_loop(), grace=grace)


def _refuse_contradictions(options: ProgramOptions) -> None:
    for name, fault in options.contradictions():
        spell = given_as(click.get_current_context(), name)
        spelled = {field: spell(field) for field in ProgramOptions.__struct_fields__}
        raise click.UsageError(f"{spelled[name]}: {fault.format_map(spelled)}")


async def _run(program: _Program, grace: GracePeriod) -> int:
    options, setups, given, logged, debug, _ = program
    config = load_config(options.kubeconfig, options.context, exec_plugins=options.exec_plugins)
    elector = make_elector(options, config, grace)
    metrics, host = Metrics(), urlsplit(config.server).netloc
    limiter = None
    if options.kube_api_qps:
        limiter = RateLimit(options.kube_api_qps, options.kube_api_burst, on_wait=metrics.rate_limiter(host))
    pressure = Pressure(random=random.Random())
    metrics.pressure(host, pressure)
    if isinstance(config.credentials, PluginCredentials):
        metrics.exec_plugin(config.credentials.calls)
        get_logger().info("credential plugin", command=config.credentials.spec.command, source=config.origin)
    async with HttpTransport(config, on_resolve=metrics.resolver) as transport:
        metrics.streams(host, lambda: transport.streamed_bytes)
        client = Client(transport, limiter=limiter, observer=metrics.requests(host), pressure=pressure)
        if options.dry_run == "server":
            client = client.with_options(dry_run=True)
            get_logger().info("dry run: the server checks all writes and stores none")
        try:
            server = await ask_version(client, SystemClock())
            manager = Manager(
                client, metrics=metrics, random=random.Random(), namespace=program.watched, leader_election=elector,
                events_api=await choose_events_api(client, options.events_api),
            )  # fmt: skip
            manager.health.add_ready("requests", str, remark=pressure.remark)
            manager.expose(
                metrics=options.metrics_bind_address, probes=options.health_probe_bind_address,
                metrics_secure=_serving(options), debug=debug._replace(server=config.server),
                max_connections=options.max_connections,
            )  # fmt: skip
            attach(setups, manager, os.environ, **given)
            wanted = Wanted(
                manager.rights, manager.namespace, takes_over=bool(given.get("take_over")),
                changes=manager.namespaces is not None,
                lease=elector.config.key if isinstance(elector, ElectorThread) else None,
                shards_in=elector.config.namespace if isinstance(elector, ShardedReplica) else "",
                metrics_secure=options.metrics_secure, names=",".join(setups),
                certificates=serve_webhooks(manager, options, config, grace),
            )  # fmt: skip
            permissions = Permissions(client)
            await permissions.ask(needs_of(wanted))
            await check_access(client, fixed_selections(manager), permissions)
            await _check_leases(client, manager, permissions, elector)
            for finding in await check_cluster(client, wanted, manager.clock, permissions, server):
                if finding.is_wrong:
                    get_logger().warning("cluster check failed", check=finding.check, finding=finding.text)
        except (ApiError, TransportError) as error:
            raise ConfigError(explain_failure(error, config)) from error
        if options.ready_file:
            manager.add(ReadyFile(manager, Path(options.ready_file)), needs_leader_election=False)
        get_logger().info("connected", server=config.server, version=server.version, **logged)
        tune_gc()
        # A part that does not end must not keep a failed program, or one that has lost its Lease, beside the next one.
        await manager.run(on_failure=lambda error: grace.begin_on_loop(1, error))
    return 0


async def _check_leases(
    client: Client, manager: Manager, permissions: Permissions, elector: ElectorThread | ShardedReplica | None
) -> None:
    match elector:
        case ElectorThread():
            await check_lease(permissions, elector.config.key)
        case ShardedReplica():
            await check_shard_leases(permissions, elector.config.namespace)
            get_logger().info((await filter_finding(client, manager.selections)).text)
        case None:
            pass


def _serving(options: ProgramOptions) -> SecureServing | None:
    """Return how metrics are protected, None when they are not."""
    if not options.metrics_secure:
        return None
    return SecureServing(options.metrics_cert_path, options.metrics_cert_name, options.metrics_cert_key)


def make_elector(
    options: ProgramOptions, config: ClusterConfig, grace: GracePeriod
) -> ElectorThread | ShardedReplica | None:
    """Return the elector of a program, or its sharded replica; None for one that always leads, and for a dry run.

    Its connections are its own, and so are its credentials: no limit, no pool and no lock of the program delays it.

    Args:
        options: The options.
        config: The cluster that has the Lease. Its namespace is that of the Lease unless the options name one.
        grace: Begins on the elector's thread when it fails, even while the program's event loop is blocked.

    Raises:
        ConfigError: The options contradict each other.
    """
    if not (options.leader_elect or options.shards) or options.dry_run == "server":
        return None
    election = LeaderElectionConfig(
        name=options.leader_elect_resource_name,
        namespace=options.leader_elect_resource_namespace or config.namespace,
        lease_duration=options.leader_elect_lease_duration.total_seconds(),
        renew_deadline=options.leader_elect_renew_deadline.total_seconds(),
        retry_period=options.leader_elect_retry_period.total_seconds(),
    )

    @asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        async with HttpTransport(load_again(options, config)) as transport:
            try:
                yield Client(transport).with_options(field_manager="leader-election")
            except Exception as error:
                grace.begin(1, error)
                raise

    clock, own_random = SystemClock(), random.Random()
    if options.shards:
        return ShardedReplica(connect, election, options.shards, clock=clock, random=own_random)
    return ElectorThread(connect, election, clock=clock, random=own_random)


def load_again(options: ProgramOptions, confirmed: ClusterConfig) -> ClusterConfig:
    """Return the configuration once more, with credentials of its own, without a second question.

    Args:
        options: Which cluster, and whether its credential plugin may run.
        confirmed: The configuration that was loaded at first; the user has been asked about its plugin.

    Raises:
        ConfigError: The kubeconfig names another plugin than the one that the user was asked about.
    """
    asks = options.exec_plugins == "ask"
    config = load_config(options.kubeconfig, options.context, exec_plugins="always" if asks else options.exec_plugins)
    if asks and _plugin_of(config) not in (None, _plugin_of(confirmed)):
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
