"""The options of the embedded cluster, for `EmbeddedCluster` and `kcr dev`: each is written here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from kcr.keywords import Flag
from kcr_devcluster.versions import DEFAULT, KubernetesVersion

# Of the API server's port: each watch of a client is one.
MAX_CONNECTIONS = 10_000

Authorization = Literal["always-allow", "rbac"]
Runtime = Literal["process", "simulated"]
ServiceAccounts = Literal["none", "accounts", "tokens"]


def service_address(given: str) -> tuple[str, str, int]:
    """Return a Service, host and port, given as `shop/hooks=https://127.0.0.1:9443`.

    Raises:
        ValueError: The text has another form.
    """
    name, _, url = given.strip().partition("=")
    parts = urlsplit(url)
    try:
        port = parts.port or 443
    except ValueError:
        port = 0
    is_address = parts.scheme == "https" and parts.hostname and parts.path in ("", "/") and not parts.query and port
    if not is_address or name.count("/") != 1 or "" in name.split("/"):
        raise ValueError(f"{given!r} is not a Service with an address: write it as shop/hooks=https://127.0.0.1:9443")
    return name, parts.hostname or "", port


def _service_addresses(given: str | Sequence[str]) -> tuple[str, ...]:
    listed = given.split(",") if isinstance(given, str) else given
    found = tuple(one.strip() for one in listed if one.strip())
    for one in found:
        service_address(one)
    return found


class ClusterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes, controllers and served APIs of a cluster.

    Without a `runtime` (None) there is no node. `authorization` does not bind the cluster's own controllers, its node
    and its client.
    """

    runtime: Annotated[Runtime | None, "How the node runs containers: as processes of this machine, or not at all."] = (
        "simulated"
    )
    nodes: Annotated[
        int, Meta(ge=1, le=100), "Number of nodes. All run their containers on this machine.", Flag("N")
    ] = 1
    heartbeats: Annotated[
        bool,
        "Whether the nodes renew their Leases every ten seconds, and are watched, from the beginning; else as soon as "
        "one falls silent on demand. An idle cluster writes nothing without them.",
    ] = False
    gc: Annotated[
        bool,
        "Whether the garbage collector, the namespace controller and the pod garbage collector run, and with them "
        "those of `quota_and_disruption`.",
    ] = True
    deployments: Annotated[
        bool,
        "Whether Deployments, ReplicaSets and ReplicationControllers are reconciled; False for controllers of your "
        "own. The controllers start with the first such object, and cost nothing before.",
    ] = True
    quota_and_disruption: Annotated[
        bool,
        "Whether the resource quota controller and the disruption controller run, which write the status of quotas and "
        "PodDisruptionBudgets. Quotas are enforced in any case; budgets whose status no controller writes allow no "
        "evictions.",
    ] = True
    authorization: Annotated[
        Authorization,
        "Authorization of the API server: always-allow allows every request, rbac enforces roles and bindings.",
    ] = "always-allow"
    kubernetes_version: Annotated[
        KubernetesVersion,
        "Version of Kubernetes: its kinds, fields and discovery.",
        Flag("VERSION", guide="compatibility.md#kubernetes-136-and-137"),
    ] = DEFAULT
    legacy_apis: Annotated[bool, "Serve extensions/v1beta1 Jobs and batch/v1beta1 CronJobs too."] = False
    gangs: Annotated[
        bool,
        "Whether workloads and groups of pods are served (`scheduling.k8s.io`), and the scheduler places a gang all at "
        "once or not at all.",
    ] = False
    sharded_list_and_watch: Annotated[
        bool,
        "Whether lists, watches and deletions of collections are limited by `shardSelector` (KEP-5866), as with the "
        "feature gate ShardedListAndWatch; without it the parameter is ignored.",
    ] = False
    service_accounts: Annotated[
        ServiceAccounts | None,
        "`none`, as with envtest: namespaces get no account, and a pod may name any. `accounts`: each namespace has an "
        "account `default`, pods get it, and those that name a missing one are refused; once there is a listener, "
        "namespaces have its certificate authority in `kube-root-ca.crt`, and Secrets of the type "
        "`kubernetes.io/service-account-token` are filled. `tokens`: containers also get a token of the account in a "
        "volume, as in a real cluster. None for `tokens` with `rbac`, else `none`.",
    ] = None
    terminated_pod_gc_threshold: Annotated[
        int,
        Meta(ge=0),
        "Finished pods to keep: every 20 s the oldest beyond this number are deleted; 0 keeps all.",
        Flag("N"),
    ] = 12_500
    webhook_services: Annotated[
        tuple[str, ...],
        _service_addresses,
        "Services of webhooks that a process outside the cluster serves, such as one in development; others are "
        "resolved to the pods behind them.",
        Flag("NAMESPACE/NAME=URL[,…]", "none", guide="dev-cluster.md#webhooks"),
    ] = ()
    data_dir: Annotated[
        str | Path | None,
        Path,
        "Folder that keeps the objects, token, certificates and port for the next start.",
        Flag("DIR", "in memory", guide="dev-cluster.md#state-on-disk"),
    ] = None
