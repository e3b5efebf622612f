"""`kcr.run`: controllers as a program, with the command line of `kcr run`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kcr.cli.run import run_program


def run(  # noqa: PLR0913  # the options of a program, all by name
    setup: Callable[..., object],
    *,
    args: Sequence[str] | None = None,
    kubeconfig: str | None = None,
    context: str | None = None,
    exec_plugins: str | None = None,
    namespace: str = "",
    kube_api_qps: float = 0.0,
    kube_api_burst: int = 100,
    metrics_bind_address: str = "0",
    metrics_secure: bool = False,
    metrics_cert_path: str = "",
    metrics_cert_name: str = "tls.crt",
    metrics_cert_key: str = "tls.key",
    health_probe_bind_address: str = "0",
    ready_file: str | Path | None = None,
    leader_election: str = "",
    log_format: str | None = None,
    log_level: str = "info",
) -> None:
    """Run controllers as a program, until SIGTERM or SIGINT; what cannot be used is one line and exit code 1 or 2.

    Before the controllers run, the program checks that the server answers, serves every kind that they watch, and
    allows to list and watch it.

    The program has the options of `kcr run` that are named here (`--kube-api-qps`, …, and `--help`, which shows the
    docstring of `setup`), and reads the same variables (`KCR_KUBE_API_QPS`, …). An option goes before a variable, and a
    variable before the argument given here.

    A program with options of its own parses them first, and passes the arguments that are left, or none:
    `kcr.run(setup, args=[])`. The variables are read all the same.

    Args:
        setup: Adds the controllers to a manager: `setup(manager)`, or `setup(manager, options)`, where the annotation
            of `options` is a struct whose fields are read from `KCR_` and their names.
        args: The arguments to read options from; None for those of the command line.
        kubeconfig: The file to use; None for `KUBECONFIG`, the pod's own account, or `~/.kube/config`.
        context: The context to use; None for the file's current one.
        exec_plugins: Whether a program that the kubeconfig names for its credentials may run: `never`, `ask` or
            `always`; None for the policy of the user's kuberc, else always.
        namespace: The one namespace to watch; empty for all.
        kube_api_qps: Requests per second in the long run; 0 for no limit.
        kube_api_burst: Requests at once, under a limit.
        metrics_bind_address: Where to serve `/metrics`, such as `:8080`; `0` for nowhere.
        metrics_secure: Serve `/metrics` over HTTPS, for bearer tokens whose user the API server allows to `get` the
            path `/metrics`.
        metrics_cert_path: The folder of the certificate for that, read again when it changes; empty for a self-signed
            one, which needs the extra `secure`.
        metrics_cert_name: The file of the certificate in the folder.
        metrics_cert_key: The file of its key.
        health_probe_bind_address: Where to serve `/healthz`, `/livez`, `/readyz` and, to this machine, `/debug/kcr`;
            `0` for nowhere.
        ready_file: A file that exists while the caches are synced and the workers run, or stand by; None for none.
        leader_election: The name of the Lease that the leader of several replicas holds, the others stand by; it is
            `--leader-elect-resource-name`. `--no-leader-elect` runs without. Empty for no election.
        log_format: `json` or `console`; None for `console` on a terminal, else `json`.
        log_level: `debug`, `info`, `warning` or `error`.
    """
    defaults = {
        "kubeconfig": kubeconfig,
        "context": context,
        "exec_plugins": exec_plugins,
        "namespace": namespace,
        "kube_api_qps": kube_api_qps,
        "kube_api_burst": kube_api_burst,
        "metrics_bind_address": metrics_bind_address,
        "metrics_secure": metrics_secure,
        "metrics_cert_path": metrics_cert_path,
        "metrics_cert_name": metrics_cert_name,
        "metrics_cert_key": metrics_cert_key,
        "health_probe_bind_address": health_probe_bind_address,
        "ready_file": ready_file,
        "leader_elect": bool(leader_election),
        "leader_elect_resource_name": leader_election,
        "log_format": log_format,
        "log_level": log_level,
    }
    run_program(setup, args, defaults)
