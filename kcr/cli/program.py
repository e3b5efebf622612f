"""What `kcr run` and programs with `kcr.run` have in common: from the options to controllers that run."""

import asyncio
import inspect
import random
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlsplit

import click
import structlog

from kcr.cli import options as shared
from kcr.cli.contact import remedy, warn_of_missing_namespace
from kcr.cli.logs import configure_logs, flush_stderr
from kcr.cli.main import explain, open_standard_streams, single
from kcr.cli.plugins import set_up
from kcr.cli.process import fast_loop, run_to_end, tune_gc
from kcr.client import Client, HttpTransport, RateLimit, load_config
from kcr.errors import ApiError, ConfigError, TransportError
from kcr.manager import Manager
from kcr.metrics import Metrics

Prepare = Callable[[Manager, bool], Awaitable[None]]


def run_program(setup: Callable[[Manager], object], args: Sequence[str] | None, defaults: Mapping[str, Any]) -> None:
    """Run the controllers of a program, with the options and variables that it shares with `kcr run`.

    Args:
        setup: Adds the controllers to a manager.
        args: The arguments to read options from; None for those of the command line.
        defaults: Values by parameter name, for what neither an option nor a variable says.

    Raises:
        SystemExit: The program cannot run, or was asked for its help.
    """
    name = Path(sys.argv[0]).name
    arguments = sys.argv[1:] if args is None else list(args)
    open_standard_streams()
    configure_logs(None, "info")
    try:
        code = _command(setup, defaults).main(arguments, prog_name=name, standalone_mode=False)
    except BaseException as error:
        code = explain(single(error), name, has_help=bool(arguments))
    flush_stderr()
    if code is not None:
        sys.exit(code)


def _command(setup: Callable[[Manager], object], defaults: Mapping[str, Any]) -> click.Command:
    settings = {
        "auto_envvar_prefix": "KCR",
        "show_default": True,
        "help_option_names": ["-h", "--help"],
        "default_map": {name: value for name, value in defaults.items() if value is not None},
    }

    @click.command(context_settings=settings, help=inspect.getdoc(setup) or "Run controllers against an API server.")
    @shared.connection_options
    @shared.operation_options("info")
    def command(**values: Any) -> None:
        async def prepare(manager: Manager, embedded: bool) -> None:
            set_up("the program", setup, manager)

        begin(values)
        operate(values, prepare)

    return command


def begin(values: Mapping[str, Any]) -> None:
    """Set up the logs, and remove the ready file that a killed process left behind.

    Raises:
        ConfigError: There can be no such file.
    """
    configure_logs(values["log_format"], values["log_level"])
    if values["ready_file"]:
        clear(Path(values["ready_file"]))


def operate(values: Mapping[str, Any], prepare: Prepare, **logged: object) -> int | None:
    """Connect, and run a manager until it fails or a signal ends it.

    Args:
        values: The connection and operation options, by parameter name.
        prepare: Adds the controllers to the manager, before it runs; it is told whether the server is the embedded one.
        logged: What the line about the connection says besides server and version.

    Returns:
        None when a signal ended it.

    Raises:
        ConfigError: A value of the options cannot be used.
        click.ClickException: The server cannot be used; the message has the cause and the remedy.
    """
    return run_to_end(lambda: _operate(values, prepare, logged), fast_loop())


async def _operate(values: Mapping[str, Any], prepare: Prepare, logged: Mapping[str, object]) -> int:
    config = load_config(values["kubeconfig"], values["context"])
    metrics, host = Metrics(), urlsplit(config.server).netloc
    limiter = None
    if values["kube_api_qps"]:
        limiter = RateLimit(values["kube_api_qps"], values["kube_api_burst"], on_wait=metrics.rate_limiter(host))
    async with HttpTransport(config) as transport:
        client = Client(transport, limiter=limiter, on_request=metrics.requests(host))
        manager = Manager(
            client,
            metrics=metrics,
            random=random.Random(),
            namespace=values["namespace"],
        )
        try:
            version = await client.server_version()
            manager.expose(metrics=values["metrics_bind_address"], probes=values["health_probe_bind_address"])
            await warn_of_missing_namespace(client, values["namespace"])
            await prepare(manager, version.endswith("+kcr"))
        except (ApiError, TransportError) as error:
            raise click.ClickException(remedy(error, config.server, config.origin)) from error
        if values["ready_file"]:
            manager.add(ReadyFile(manager, Path(values["ready_file"])))
        structlog.get_logger().info("connected", server=config.server, version=version, **logged)
        tune_gc()
        await manager.run()
    return 0


def clear(ready_file: Path) -> None:
    """Remove a ready file that a killed process left behind; not even for a moment is there one.

    Raises:
        ConfigError: There can be no such file.
    """
    try:
        with NamedTemporaryFile(dir=ready_file.parent):
            ready_file.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"ready file {ready_file}: {error.strerror}: name a file that can be written") from error


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
