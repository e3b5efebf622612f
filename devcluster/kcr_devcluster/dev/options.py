"""The options of `kcr dev`. Slow imports are in `program`."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from kcr.api.bindaddress import BindAddress, bind_address
from kcr.keywords import Flag
from kcr_devcluster.options import MAX_CONNECTIONS, ClusterOptions

# The controllers for which `*` stands in `kcr dev`.
CONTROLLERS = ("job", "ttl", "cronjob")
# Those of the cluster that the command line has.
_OF_CLUSTER = (
    "runtime",
    "nodes",
    "authorization",
    "kubernetes_version",
    "legacy_apis",
    "terminated_pod_gc_threshold",
    "webhook_services",
    "data_dir",
)


class DevOptions(ClusterOptions, frozen=True, kw_only=True):
    """The options of `kcr dev` beside its files, its controllers and the form of its log lines."""

    wait: Annotated[bool, "Exit when all Jobs of the files have ended."] = False
    port: Annotated[
        int,
        Meta(ge=0, le=65535),
        "Port of the API server on 127.0.0.1.",
        Flag("N", "the previous one with a data folder, else a free one"),
    ] = 0
    max_connections: Annotated[
        int,
        Meta(ge=1),
        "Connections of the port; beyond, the oldest idle one makes room.",
        Flag("N", guide="security.md#network"),
    ] = MAX_CONNECTIONS
    debug_port: Annotated[
        int,
        Meta(ge=0, le=65535),
        "Port of the page /debug/kcr on 127.0.0.1.",
        Flag("N", "a free one", guide="dev-cluster.md#web-page"),
    ] = 0
    no_debug_page: Annotated[bool, "Disable this page."] = False
    metrics_bind_address: Annotated[
        str | BindAddress | None,
        bind_address,
        "Address of /metrics, such as 127.0.0.1:8080; 0 disables it.",
        Flag("HOST:PORT", "disabled"),
    ] = None
    faults: Annotated[
        Path | None,
        Path,
        "Rules for faults of clients of the port: errors, lost replies, broken watches.",
        Flag("FILE", guide="dev-cluster.md#faults"),
    ] = None
    no_controllers: Annotated[
        bool,
        "Run none of kcr's own controllers, not even those of Deployments, quotas and PodDisruptionBudgets, only yours "
        "of --controllers; for controllers in other processes, such as kcr run.",
    ] = False
    kubeconfig: Annotated[
        Path | None,
        Path,
        "File for the kubeconfig.",
        Flag("FILE", "kubeconfig in the data folder; without one dev.kubeconfig in $XDG_RUNTIME_DIR/kcr or ~/.kcr"),
    ] = None


COMMAND_LINE = (*_OF_CLUSTER, *(name for name in DevOptions.__struct_fields__ if not hasattr(ClusterOptions, name)))
