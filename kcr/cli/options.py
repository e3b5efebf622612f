"""Command-line options that several commands share, and their validation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kcr.api.durations import parse_duration
from kcr.cli.completion import complete_controllers, complete_namespaces
from kcr.errors import ConfigError
from kcr.gates import read_gates

F = TypeVar("F", bound=Callable[..., Any])

LOG_LEVELS = ("debug", "info", "warning", "error")


def connection_options(command: F) -> F:
    """Add `--kubeconfig`, `--context` and `--namespace`, which is all of them by default."""
    return _connection_options("all", command)


def object_options(command: F) -> F:
    """Add `--kubeconfig`, `--context` and `--namespace`, which is the context's by default."""
    everywhere = click.option(
        "-A", "--all-namespaces", is_flag=True, hidden=True, expose_value=False, allow_from_autoenv=False,
        callback=_not_everywhere,
    )  # fmt: skip
    return _connection_options("the context's", everywhere(command))


def _not_everywhere(ctx: click.Context, parameter: click.Parameter, given: bool) -> None:
    """Refuse `-A` as `kubectl get job/pi -A` does: a name is one in each namespace."""
    if given:
        raise click.UsageError("an object cannot be found by name in all namespaces: name its namespace with -n")


def _connection_options(default_namespace: str, command: F) -> F:
    kubeconfig = click.option(
        "--kubeconfig", metavar="FILE", show_envvar=True, show_default="KUBECONFIG, in-cluster, ~/.kube/config",
        help="Kubeconfig to use.",
    )  # fmt: skip
    context = click.option(
        "--context", metavar="NAME", show_envvar=True, show_default="its current one", help="Context of the kubeconfig."
    )
    namespace = click.option(
        "-n", "--namespace", metavar="NAME", default="", show_envvar=True, show_default=default_namespace,
        help="Namespace to work in.", shell_complete=complete_namespaces,
    )  # fmt: skip
    return kubeconfig(context(exec_plugins_option(namespace(command))))


def exec_plugins_option(command: F) -> F:
    """Add `--exec-plugins`, for commands that send requests with the credentials of a kubeconfig."""
    return click.option(
        "--exec-plugins", type=click.Choice(["never", "ask", "always"]), envvar="KCR_EXEC_PLUGINS", show_envvar=True,
        show_default="as kubectl: what kuberc says, else always",
        help="Whether a program that the kubeconfig names for its credentials may run.",
    )(command)  # fmt: skip


def optional_seconds(ctx: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Read a duration, such as `1m30s`, as seconds; None when there is none.

    Raises:
        click.BadParameter: The text is no duration above zero.
    """
    seconds = None if text is None else _seconds(ctx, parameter, text)
    if seconds is not None and seconds <= 0:
        raise click.BadParameter(f"{text} is not above zero")
    return seconds


def operation_options(default_level: str) -> Callable[[F], F]:
    """Return a decorator that adds the limit of requests, the ports, the ready file and the options of logs.

    Args:
        default_level: The log level without an option or variable.
    """

    def decorate(command: F) -> F:
        qps = click.option(
            "--kube-api-qps", type=click.FloatRange(min=0), default=0.0, show_envvar=True, show_default="no limit",
            help="Requests per second in the long run.",
        )  # fmt: skip
        burst = click.option(
            "--kube-api-burst", type=click.IntRange(min=1), default=100, show_envvar=True, show_default=True,
            help="Requests at once, under a limit.",
        )  # fmt: skip
        metrics = address_option("--metrics-bind-address", "/metrics")
        probes = address_option("--health-probe-bind-address", "/healthz, /livez, /readyz and /debug/kcr")
        ready_file = click.option(
            "--ready-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", show_envvar=True,
            help="File made once the caches are synced and the workers run.",
        )  # fmt: skip
        return qps(burst(metrics(_secure_options(probes(ready_file(log_options(default_level)(command)))))))

    return decorate


def _secure_options(command: F) -> F:
    """Add the options of protected metrics, which are those of Kubebuilder's programs."""
    secure = click.option(
        "--metrics-secure/--no-metrics-secure", default=False, show_default="no", show_envvar=True,
        help="Serve /metrics over HTTPS, for bearer tokens whose user may get /metrics.",
    )  # fmt: skip
    path = click.option(
        "--metrics-cert-path", metavar="FOLDER", default="", show_envvar=True, show_default="a self-signed one",
        help="Folder of the certificate for --metrics-secure; it is read again when it changes.",
    )  # fmt: skip
    name = click.option(
        "--metrics-cert-name", metavar="FILE", default="tls.crt", show_envvar=True, show_default=True,
        help="Certificate in that folder.",
    )  # fmt: skip
    key = click.option(
        "--metrics-cert-key", metavar="FILE", default="tls.key", show_envvar=True, show_default=True,
        help="Its key in that folder.",
    )  # fmt: skip
    return secure(path(name(key(command))))


def election_options(name: str) -> Callable[[F], F]:
    """Return a decorator that adds the options of leader election, which are those of kube-controller-manager.

    Args:
        name: The name of the Lease without an option or variable; empty when there has to be one.
    """

    def decorate(command: F) -> F:
        elect = click.option(
            "--leader-elect/--no-leader-elect", default=False, show_default="no", show_envvar=True,
            help="Lead only while holding a Lease: of several replicas one works, the others stand by.",
        )  # fmt: skip
        resource = click.option(
            "--leader-elect-resource-name", metavar="NAME", default=name, show_envvar=True, show_default=bool(name),
            help="Lease to hold; the same in all replicas.",
        )  # fmt: skip
        namespace = click.option(
            "--leader-elect-resource-namespace", metavar="NAME", default="", show_envvar=True,
            show_default="the pod's own, or the context's", help="Namespace of the Lease.",
        )  # fmt: skip
        lease = _duration_option("lease-duration", "15s", "Time after which a Lease that is not renewed may be taken.")
        renew = _duration_option("renew-deadline", "10s", "Time in which the leader must have renewed, or stop.")
        retry = _duration_option("retry-period", "2s", "Time between two tries to take or renew the Lease.")
        return elect(resource(namespace(lease(renew(retry(command))))))

    return decorate


def _duration_option(name: str, default: str, text: str) -> Callable[[F], F]:
    return click.option(
        f"--leader-elect-{name}", metavar="DURATION", default=default, show_default=True, show_envvar=True,
        callback=_seconds, help=text,
    )  # fmt: skip


def _seconds(ctx: click.Context, parameter: click.Parameter, text: str) -> float:
    try:
        return parse_duration(text) / 1e9
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 15s or 1m30s") from error


def log_options(default_level: str, default_format: str = "console on a terminal, else json") -> Callable[[F], F]:
    """Return a decorator that adds `--log-format` and `--log-level`.

    Args:
        default_level: The level without an option or variable.
        default_format: What the help shows as the default format.
    """

    def decorate(command: F) -> F:
        level = click.option(
            "--log-level", type=click.Choice(LOG_LEVELS, case_sensitive=False), default=default_level,
            envvar="KCR_LOG_LEVEL", show_envvar=True, show_default=True, help="Log lines of this level and above.",
        )  # fmt: skip
        form = click.option(
            "--log-format", type=click.Choice(["json", "console"]), envvar="KCR_LOG_FORMAT", show_envvar=True,
            show_default=default_format, help="Form of the log lines on stderr.",
        )  # fmt: skip
        return form(level(command))

    return decorate


def controllers_option(default: str) -> Callable[[F], F]:
    """Return a decorator that adds `--controllers`.

    Args:
        default: The controllers without an option or variable.
    """
    return click.option(
        "--controllers", default=default, show_default=True, envvar="KCR_CONTROLLERS", show_envvar=True,
        metavar="NAME[,NAME…]", help="Controllers to run, by the names they are installed under, or as MODULE:SETUP.",
        shell_complete=complete_controllers,
    )  # fmt: skip


def dry_run_option(command: F) -> F:
    """Add `--dry-run`."""
    return click.option(
        "--dry-run", type=click.Choice(["none", "server"]), default="none", show_default=True, show_envvar=True,
        help="With server, all writes are checked by the server, logged, and not kept; no Lease is taken.",
    )(command)  # fmt: skip


def workers_option(command: F) -> F:
    """Add `--workers`."""
    return click.option(
        "--workers", type=click.IntRange(min=1), envvar="KCR_WORKERS", show_envvar=True,
        show_default="the controller's own", help="Objects a controller works on at the same time.",
    )(command)  # fmt: skip


def feature_gates_option(command: F) -> F:
    """Add `--feature-gates`."""
    return click.option(
        "--feature-gates", default="", envvar="KCR_FEATURE_GATES", show_envvar=True, show_default="all off",
        metavar="NAME=true[,…]", callback=_gates, help="Alpha features: GenericWorkload, WorkloadWithJob.",
    )(command)  # fmt: skip


def _gates(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    try:
        read_gates(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return text


def address_option(name: str, what: str) -> Callable[[F], F]:
    """Return a decorator that adds an option for the address at which something is served.

    Args:
        name: The option, with its dashes.
        what: What is served there.
    """
    return click.option(
        name, default="0", show_default=True, show_envvar=True, metavar="HOST:PORT", callback=_address,
        help=f"Address to serve {what} at, such as :8080; 0 for none.",
    )  # fmt: skip


def _address(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    from kcr.endpoint import parse_address  # noqa: PLC0415  # with it comes the client, which takes 0.15 s

    try:
        parse_address(text)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error
    return text


def names(text: str) -> tuple[str, ...]:
    """Split a comma-separated option, without blanks and repetitions, in the order given."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
