"""The options of programs with controllers: each is written here, and nowhere else.

`kcr.app.fields` makes the options of the command line of them, and their variables; `kcr.run` takes the fields of
`ProgramOptions` as keywords; `tools.reference` writes their table.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kcr.annotations import Selector
from kcr.api.bindaddress import MAX_CONNECTIONS, BindAddress, bind_address
from kcr.api.durations import parse_duration
from kcr.api.resources import object_name
from kcr.api.slots import check_shards
from kcr.app.fields import text_of
from kcr.feature_gates import read_gates
from kcr.keywords import Flag

# Those of `kcr run`, for which `*` stands there.
DEFAULT_CONTROLLERS = ("job",)


def names(given: str) -> tuple[str, ...]:
    """Return the names of a list with commas, without blanks and repetitions, in the order given.

    Raises:
        ValueError: The list has no name.
    """
    found = tuple(dict.fromkeys(part.strip() for part in given.split(",") if part.strip()))
    if not found:
        raise ValueError(f"{given!r} names none")
    return found


def namespaces(given: str) -> str:
    """Return the names of namespaces as they are given, with commas between them.

    Raises:
        ValueError: No namespace may have such a name.
    """
    for one in given.split(","):
        object_name(one.strip())
    return given


def duration(given: str | timedelta) -> timedelta:
    """Return a duration, such as `1m30s`.

    Raises:
        ValueError: The text is not a duration.
    """
    if isinstance(given, timedelta):
        return given
    try:
        return timedelta(microseconds=parse_duration(given) / 1000)
    except ValueError as error:
        raise ValueError(f"{error}; write it as 15s or 1m30s") from error


def read_shards(given: str | int) -> int:
    """Return a number of shards.

    Raises:
        ValueError: It is not a number, or the slots cannot be divided so.
    """
    if isinstance(given, str) and not given.strip().isdecimal():
        raise ValueError(f"{given!r} is not a whole number")
    return check_shards(int(given))


class PluginOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which controllers `kcr run` and `kcr dev` run, and the options that are handed to all of them."""

    controllers: Annotated[
        tuple[str, ...],
        names,
        "Controllers to run: names of installed ones; MODULE:SETUP for your own, a function of a module that is "
        "installed or in the working directory; -NAME leaves one out.",
        Flag("NAME[,NAME…]", ",".join(DEFAULT_CONTROLLERS), guide="install.md#choice-of-controllers"),
    ] = ("*",)
    no_controllers: Annotated[bool, "Run none of kcr's own controllers, only yours of --controllers."] = False
    take_over: Annotated[bool, "Replace the cluster's own controllers: reconcile Jobs without spec.managedBy too."] = (
        False
    )
    workers: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        "Concurrent reconciles of each controller.",
        Flag("N", "the controller's own"),
    ] = None
    feature_gates: Annotated[
        frozenset[str],
        read_gates,
        "Alpha features: GenericWorkload, and with it WorkloadWithJob, which schedules the pods of a Job together; "
        "ShardedListAndWatch, with which the server of kcr dev obeys shardSelector.",
        Flag("NAME=true[,…]", "all off"),
    ] = frozenset()

    def given(self) -> dict[str, object]:
        """Return the options for the controllers, by field of their own options."""
        return {"take_over": self.take_over, "workers": self.workers, "feature_gates": self.feature_gates}


class ProgramOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `kcr run` and of programs with `kcr.run`: how to connect and to operate."""

    kubeconfig: Annotated[str | None, "Kubeconfig to use.", Flag("FILE", "KUBECONFIG, in-cluster, ~/.kube/config")] = (
        None
    )
    context: Annotated[str | None, "Context of the kubeconfig.", Flag("NAME", "its current one")] = None
    exec_plugins: Annotated[
        Literal["never", "ask", "always"] | None,
        "Whether the credential program of the kubeconfig may run.",
        Flag(
            default="the policy of the user's kuberc, else always, as kubectl", guide="security.md#credential-programs"
        ),
    ] = None
    namespace: Annotated[
        str,
        namespaces,
        "Namespace to work in; kcr run and kcr check take several, as in a,b.",
        Flag("NAME", "all", "-n"),
    ] = ""
    namespace_selector: Annotated[
        Selector,
        "Work in the namespaces whose labels match, such as team=blue, as they come and go.",
        Flag("SELECTOR", "no selector", guide="operate.md#namespaces-that-change"),
    ] = ""
    dry_run: Annotated[
        Literal["none", "server"],
        "With server, the server checks all writes, kcr logs them, and nothing is stored; no Lease is taken.",
        Flag(guide="operate.md#dry-run"),
    ] = "none"
    leader_elect: Annotated[
        bool,
        "Reconcile only while holding a Lease; the other replicas stand by.",
        Flag(default="no", negation=True, guide="writing-controllers.md#leader-election"),
    ] = False
    leader_elect_resource_name: Annotated[
        str, object_name, "Lease to hold, the same in all replicas.", Flag("NAME")
    ] = ""
    leader_elect_resource_namespace: Annotated[
        str, object_name, "Namespace of the Lease.", Flag("NAME", "the pod's own, or the context's")
    ] = ""
    leader_elect_lease_duration: Annotated[
        timedelta, duration, "Time after which other replicas may take a Lease that is not renewed.", Flag("DURATION")
    ] = timedelta(seconds=15)
    leader_elect_renew_deadline: Annotated[
        timedelta, duration, "Time after which a leader that cannot renew stops.", Flag("DURATION")
    ] = timedelta(seconds=10)
    leader_elect_retry_period: Annotated[
        timedelta, duration, "Time between two attempts to take or renew the Lease.", Flag("DURATION")
    ] = timedelta(seconds=2)
    shards: Annotated[
        int | None,
        read_shards,
        "Let every replica reconcile its share: divide the objects into so many shards, each with a Lease; a power of "
        "two up to 64, the same in all replicas.",
        Flag("N", "one replica reconciles all", guide="scale.md"),
    ] = None
    kube_api_qps: Annotated[float, Meta(ge=0), "Requests per second in the long run.", Flag("N", "no limit")] = 0.0
    kube_api_burst: Annotated[int, Meta(ge=1), "Requests in a burst, under a limit.", Flag("N")] = 100
    events_api: Annotated[
        Literal["core", "events.k8s.io", "auto"],
        "API group of the events that are written: with events.k8s.io, repeats become series; auto takes it where the "
        "server has it.",
        Flag(guide="observe.md#events"),
    ] = "core"
    metrics_bind_address: Annotated[
        str | BindAddress | None,
        bind_address,
        "Address of /metrics, such as :8080; 0 disables it.",
        Flag("HOST:PORT", "disabled"),
    ] = None
    metrics_secure: Annotated[
        bool,
        "Serve /metrics over HTTPS, for bearer tokens whose user may get /metrics.",
        Flag(default="no", negation=True, guide="observe.md#protected-metrics"),
    ] = False
    metrics_cert_path: Annotated[
        str,
        "Folder of the certificate of protected metrics, reloaded on change.",
        Flag("FOLDER", "a self-signed one, which needs the extra 'secure'"),
    ] = ""
    metrics_cert_name: Annotated[str, "File of the certificate in its folder.", Flag("FILE")] = "tls.crt"
    metrics_cert_key: Annotated[str, "File of the key in the folder of the certificate.", Flag("FILE")] = "tls.key"
    health_probe_bind_address: Annotated[
        str | BindAddress | None,
        bind_address,
        "Address of /healthz, /livez, /readyz and /debug/kcr, such as :8081; 0 disables them.",
        Flag("HOST:PORT", "disabled"),
    ] = None
    max_connections: Annotated[
        int,
        Meta(ge=1),
        "Connections of each port; beyond, the oldest idle one makes room.",
        Flag("N", guide="security.md#network"),
    ] = MAX_CONNECTIONS
    webhook_host: Annotated[str, "Address on which webhooks are served, when there are any.", Flag("HOST", "all")] = ""
    webhook_port: Annotated[
        int, Meta(ge=-1, le=65535), "Port of webhooks; -1 disables it.", Flag("PORT", guide="webhooks.md#serving")
    ] = 9443
    webhook_cert_dir: Annotated[
        str,
        "Folder of the certificate of webhooks, reloaded on change.",
        Flag("FOLDER", "a certificate that kcr makes", guide="webhooks.md#certificates"),
    ] = ""
    webhook_cert_name: Annotated[str, "File of the certificate in its folder.", Flag("FILE")] = "tls.crt"
    webhook_key_name: Annotated[str, "File of the key in the folder of the certificate.", Flag("FILE")] = "tls.key"
    webhook_client_ca_name: Annotated[
        str,
        "File in the folder with the authorities whose client certificates are required.",
        Flag("FILE", "none is required"),
    ] = ""
    webhook_service_name: Annotated[
        str,
        object_name,
        "Service of the webhooks, for which kcr makes a certificate; needs the extra 'secure'.",
        Flag("NAME"),
    ] = ""
    webhook_service_namespace: Annotated[
        str, object_name, "Namespace of the Service and the Secret.", Flag("NAME", "the pod's own, or the context's")
    ] = ""
    webhook_secret_name: Annotated[
        str, object_name, "Secret of the certificate that kcr makes.", Flag("NAME", "that of the Service")
    ] = ""
    webhook_shutdown_delay: Annotated[
        timedelta,
        duration,
        "Time for which webhooks are served after SIGTERM, until the pod has left its Service.",
        Flag("DURATION"),
    ] = timedelta(seconds=5)
    ready_file: Annotated[
        str | Path | None, Path, "File that exists while caches are synced and workers run or stand by.", Flag("FILE")
    ] = None
    log_format: Annotated[
        Literal["json", "console"] | None,
        "Format of the log lines on stderr.",
        Flag(default="console on a terminal, else json"),
    ] = None
    log_level: Annotated[Literal["debug", "info", "warning", "error"], "Lowest level of the log lines."] = "info"

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield the fields that do not fit the others, each with the remedy, in which names of fields are in braces."""
        if self.metrics_secure and self.metrics_bind_address is None:
            yield "metrics_secure", "metrics are served nowhere: add {metrics_bind_address}=:8443"
        if self.metrics_cert_path and not self.metrics_secure:
            yield "metrics_cert_path", "it has no effect without {metrics_secure}: add that as well"
        if self.namespace and self.namespace_selector:
            yield "namespace_selector", "it chooses the namespaces, as {namespace} does: omit one of them"
        if self.webhook_client_ca_name and not self.webhook_cert_dir:
            yield "webhook_client_ca_name", "its folder is not named: add {webhook_cert_dir}"


def shown(options: msgspec.Struct) -> dict[str, object]:
    """Return options by name as the command line takes them, for the debug pages: names of files, no secrets."""
    return {name: text_of(value) for name, value in msgspec.structs.asdict(options).items()}
