"""The options of `kcr dev`. Slow imports are in `program`."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kcr.app.fields import Flag


class DevOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `kcr dev` beside its files, its controllers and the form of its log lines."""

    wait: Annotated[bool, "Exit when all Jobs of the files have ended."] = False
    runtime: Annotated[
        Literal["process", "simulated"],
        "How the node runs containers: as processes of this machine, or not at all.",
    ] = "process"
    nodes: Annotated[
        int, Meta(ge=1, le=100), "Number of nodes. All run their containers on this machine.", Flag("N")
    ] = 1
    port: Annotated[
        int,
        Meta(ge=0, le=65535),
        "Port of the API server on 127.0.0.1.",
        Flag("N", "the previous one with a data folder, else a free one"),
    ] = 0
    debug_port: Annotated[
        int,
        Meta(ge=0, le=65535),
        "Port of the page /debug/kcr on 127.0.0.1.",
        Flag("N", "a free one", guide="dev-cluster.md#web-page"),
    ] = 0
    no_debug_page: Annotated[bool, "Disable this page."] = False
    data_dir: Annotated[
        Path | None,
        Path,
        "Folder that keeps the objects, token, certificates and port for the next start.",
        Flag("DIR", "in memory", guide="dev-cluster.md#state-on-disk"),
    ] = None
    faults: Annotated[
        Path | None,
        Path,
        "Rules for faults of clients of the port: errors, lost replies, broken watches.",
        Flag("FILE", guide="dev-cluster.md#faults"),
    ] = None
    no_controllers: Annotated[
        bool,
        "Run no controllers, not even those of Deployments, quotas and PodDisruptionBudgets; for controllers in other "
        "processes, such as kcr run.",
    ] = False
    authorization: Annotated[
        Literal["always-allow", "rbac"],
        "Authorization of the API server: always-allow allows every request, rbac enforces roles and bindings.",
    ] = "always-allow"
    legacy_apis: Annotated[bool, "Serve extensions/v1beta1 Jobs and batch/v1beta1 CronJobs too."] = False
    terminated_pod_gc_threshold: Annotated[
        int,
        Meta(ge=0),
        "Finished pods to keep: every 20 s the oldest beyond this number are deleted; 0 keeps all.",
        Flag("N"),
    ] = 12_500
    kubeconfig: Annotated[
        Path | None,
        Path,
        "File for the kubeconfig.",
        Flag("FILE", "kubeconfig in the data folder; without one dev.kubeconfig in $XDG_RUNTIME_DIR/kcr or ~/.kcr"),
    ] = None
