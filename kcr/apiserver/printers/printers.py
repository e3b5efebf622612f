"""The columns and cells of each kind.

Source: kubernetes/pkg/printers/internalversion/printers.go.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from kcr.api.durations import age, human_duration
from kcr.apiserver.kinds.catalogue import (
    CONFIG_MAPS,
    CRON_JOBS,
    EVENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.printers.pods import pod_cells
from kcr.apiserver.printers.resources import RESOURCES, cells_of, selector_text, templated

Cells = list[Any]
_ROLE = "node-role.kubernetes.io/"
_LIMITS = "limits."
_NONE = "<none>"


class Column(NamedTuple):
    """One column; a wide one is shown with `-o wide` only."""

    name: str
    type: str = "string"
    wide: bool = False
    description: str = ""


class Printer(NamedTuple):
    """The columns of a kind, and how the cells of an object are made at a given time."""

    columns: tuple[Column, ...]
    cells: Callable[[Manifest, datetime], Cells]


def printer_of(kind: Kind) -> Printer:
    """Return the printer of a kind; kinds without one show their name and when they were made."""
    return _PRINTERS.get(kind.stored.type.display, _OTHERS)


def _columns(names: str) -> tuple[Column, ...]:
    """Return columns from their names, separated by commas; a star marks the wide ones."""
    return tuple(Column(name.rstrip("*"), wide=name.endswith("*")) for name in names.split(","))


def _name(obj: Manifest) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Manifest, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _condition(obj: Manifest, kind: str) -> Mapping[str, Any]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def _holds(obj: Manifest, kind: str) -> bool:
    return _condition(obj, kind).get("status") == "True"


def _job(job: Manifest, now: datetime) -> Cells:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    return [
        _name(job), _job_status(job), _completions(spec, status), _job_duration(status, now), _age(job, now),
        *templated(spec), selector_text(spec.get("selector")),
    ]  # fmt: skip


def _cron_job(cronjob: Manifest, now: datetime) -> Cells:
    spec, status = cronjob.get("spec") or {}, cronjob.get("status") or {}
    last, made = status.get("lastScheduleTime"), (spec.get("jobTemplate") or {}).get("spec") or {}
    # Of a boolean column, the cells are texts all the same.
    return [
        _name(cronjob), spec.get("schedule", ""), spec.get("timeZone") or _NONE, str(spec.get("suspend", "<unset>")),
        len(status.get("active") or ()), age(last, now) if last else _NONE, _age(cronjob, now),
        *templated(made), selector_text(made.get("selector")),
    ]  # fmt: skip


def _job_status(job: Manifest) -> str:
    if _holds(job, "Complete"):
        return "Complete"
    if _holds(job, "Failed"):
        return "Failed"
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((one for one in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if _holds(job, one)), "Running")


def _completions(spec: Manifest, status: Manifest) -> str:
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(status: Manifest, now: datetime) -> str:
    if not status.get("startTime"):
        return ""
    end = datetime.fromisoformat(status["completionTime"]) if status.get("completionTime") else now
    return human_duration(end - datetime.fromisoformat(status["startTime"]))


def _event(event: Manifest, now: datetime) -> Cells:
    about, series = event.get("involvedObject") or {}, event.get("series") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or first
    target = f"{about.get('kind', '').lower()}/{about['name']}" if about.get("name") else about.get("kind", "").lower()
    return [
        age(last, now), event.get("type", ""), event.get("reason", ""), target, about.get("fieldPath", ""),
        _source(event), event.get("message", "").strip(), age(first, now),
        series.get("count") or event.get("count") or 1, _name(event),
    ]  # fmt: skip


def _source(event: Manifest) -> str:
    source = event.get("source") or {}
    named = (
        source.get("component") or event.get("reportingComponent", ""),
        source.get("host") or event.get("reportingInstance", ""),
    )
    return ", ".join(part for part in named if part)


def _node(node: Manifest, now: datetime) -> Cells:
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    roles = sorted(
        label.removeprefix(_ROLE) for label in node["metadata"].get("labels") or () if label.startswith(_ROLE)
    )
    addresses = {one.get("type"): one.get("address") for one in reversed(status.get("addresses") or ())}
    return [
        _name(node), _node_status(node), ",".join(roles) or _NONE, _age(node, now), info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or _NONE, addresses.get("ExternalIP") or _NONE,
        info.get("osImage") or "<unknown>", info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]  # fmt: skip


def _node_status(node: Manifest) -> str:
    ready = _condition(node, "Ready").get("status")
    words = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{words},SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else words


def _config_map(obj: Manifest, now: datetime) -> Cells:
    return [_name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), _age(obj, now)]


def _quota(quota: Manifest, now: datetime) -> Cells:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    uses = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
    requests = ", ".join(use for name, use in uses.items() if not name.startswith(_LIMITS))
    limits = ", ".join(use for name, use in uses.items() if name.startswith(_LIMITS))
    return [_name(quota), requests, limits, _age(quota, now)]


def _service(service: Manifest, now: datetime) -> Cells:
    spec = service.get("spec") or {}
    ports = ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in spec.get("ports") or ())
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    return [
        _name(service), spec.get("type", "ClusterIP"), spec.get("clusterIP") or _NONE, _NONE, ports or _NONE,
        _age(service, now), selector or _NONE,
    ]  # fmt: skip


_EVENT_COLUMNS = "Last Seen,Type,Reason,Object,Subobject*,Source*,Message,First Seen*"
_NODE_COLUMNS = "Name,Status,Roles,Age,Version,Internal-IP*,External-IP*,OS-Image*,Kernel-Version*,Container-Runtime*"
_CRON_JOB_COLUMNS = (
    *_columns("Name,Schedule,Timezone"), Column("Suspend", "boolean"), Column("Active", "integer"),
    *_columns("Last Schedule,Age,Containers*,Images*,Selector*"),
)  # fmt: skip
_PRINTERS: Mapping[str, Printer] = {
    **{one: Printer(_columns(names), partial(cells_of, one)) for one, (names, _) in RESOURCES.items()},
    PODS.type.display: Printer(
        _columns("Name,Ready,Status,Restarts,Age,IP*,Node*,Nominated Node*,Readiness Gates*"), pod_cells
    ),
    JOBS.type.display: Printer(_columns("Name,Status,Completions,Duration,Age,Containers*,Images*,Selector*"), _job),
    CRON_JOBS.type.display: Printer(_CRON_JOB_COLUMNS, _cron_job),
    EVENTS.type.display: Printer(
        (*_columns(_EVENT_COLUMNS), Column("Count", "integer", wide=True), Column("Name", wide=True)), _event
    ),
    NODES.type.display: Printer(_columns(_NODE_COLUMNS), _node),
    NAMESPACES.type.display: Printer(
        _columns("Name,Status,Age"),
        lambda obj, now: [_name(obj), (obj.get("status") or {}).get("phase", ""), _age(obj, now)],
    ),
    LEASES.type.display: Printer(
        _columns("Name,Holder,Age"),
        lambda obj, now: [_name(obj), (obj.get("spec") or {}).get("holderIdentity", ""), _age(obj, now)],
    ),
    CONFIG_MAPS.type.display: Printer(_columns("Name,Data,Age"), _config_map),
    SECRETS.type.display: Printer(
        _columns("Name,Type,Data,Age"),
        lambda obj, now: [_name(obj), obj.get("type", ""), len(obj.get("data") or ()), _age(obj, now)],
    ),
    RESOURCE_QUOTAS.type.display: Printer(_columns("Name,Request,Limit,Age"), _quota),
    SERVICE_ACCOUNTS.type.display: Printer(_columns("Name,Age"), lambda obj, now: [_name(obj), _age(obj, now)]),
    SERVICES.type.display: Printer(_columns("Name,Type,Cluster-IP,External-IP,Port(s),Age,Selector*"), _service),
}
_OTHERS = Printer(
    (Column("Name"), Column("Created At", "date")),
    lambda obj, now: [_name(obj), obj["metadata"].get("creationTimestamp", "")],
)
