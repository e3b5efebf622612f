"""The columns and cells of each kind.

Source: kubernetes/pkg/printers/internalversion/printers.go.
"""

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from functools import partial

from kcr.api.durations import age, human_duration
from kcr_devcluster.apiserver.http.printers.columns import Cells, Column, Printer, custom_printer
from kcr_devcluster.apiserver.http.printers.pods import pod_cells
from kcr_devcluster.apiserver.http.printers.resources import RESOURCES, cells_of, condition_of, selector_text, templated
from kcr_devcluster.apiserver.kinds.kind import Conversion, Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.quantities import amount, canonical

_NONE = "<none>"
_KIBI_NANO = 1024 * 10**9


def printer_of(kind: Kind) -> Printer:
    """Return the printer of a kind; kinds without one show their name and when they were made."""
    if kind.custom is not None:
        return custom_printer(kind.custom.columns)
    printer, conversion = _PRINTERS.get(kind.printer or kind.stored.type.display, OTHERS), kind.conversion
    if conversion is None or conversion.same_fields:
        return printer
    return printer._replace(cells=partial(_converted_cells, printer, conversion))


def _converted_cells(printer: Printer, conversion: Conversion, obj: Manifest, now: datetime) -> Cells:
    """Return the cells of an object of a view: those of the object that it shows."""
    stored = deepcopy(obj)
    conversion.to_hub(stored)
    return printer.cells(stored, now)


def _columns(names: str) -> tuple[Column, ...]:
    """Return columns from their names, separated by commas: `Name:type`, with a star where they are wide ones."""
    return tuple(_column(*text.rstrip("*").partition(":")[::2], wide=text.endswith("*")) for text in names.split(","))


def _column(name: str, type_name: str, *, wide: bool) -> Column:
    return Column(name, type_name or "string", wide=wide)


def _name(obj: Manifest) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Manifest, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _holds(obj: Manifest, kind: str) -> bool:
    return condition_of(obj, kind).get("status") == "True"


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


def _definition(definition: Manifest, now: datetime) -> Cells:
    spec, names = definition.get("spec") or {}, (definition.get("spec") or {}).get("names") or {}
    versions = sorted(
        f"{one['name']}{'(storage)' if one.get('storage') else ''}"
        for one in spec.get("versions") or ()
        if one.get("served")
    )
    return [
        _name(definition), spec.get("scope", ""), ",".join(versions), definition["metadata"]["creationTimestamp"],
        spec.get("group", ""), names.get("kind", ""), ",".join(names.get("shortNames") or ()),
        _holds(definition, "Established"),
    ]  # fmt: skip


def _usage(metrics: Manifest, now: datetime) -> Cells:
    used = [one["usage"] for one in metrics.get("containers") or (metrics,)]
    cpu, memory = (sum(amount(one[resource]) for one in used) for resource in ("cpu", "memory"))
    return [_name(metrics), canonical(f"{cpu}n"), canonical(f"{memory // _KIBI_NANO}Ki"), metrics["window"]]


def _scale(scale: Manifest, now: datetime) -> Cells:
    wanted, found = ((scale.get(part) or {}).get("replicas", 0) for part in ("spec", "status"))
    return [_name(scale), wanted, found, _age(scale, now)]


_USAGE_COLUMNS = (
    Column("Name"), Column("cpu", format="quantity"), Column("memory", format="quantity"),
    Column("Window", format="duration"),
)  # fmt: skip
_PRINTERS: Mapping[str, Printer] = {
    **{one: Printer(_columns(names), partial(cells_of, one)) for one, (names, _) in RESOURCES.items()},
    "pods": Printer(_columns("Name,Ready,Status,Restarts,Age,IP*,Node*,Nominated Node*,Readiness Gates*"), pod_cells),
    "jobs.batch": Printer(_columns("Name,Status,Completions,Duration,Age,Containers*,Images*,Selector*"), _job),
    "cronjobs.batch": Printer(
        _columns(
            "Name,Schedule,Timezone,Suspend:boolean,Active:integer,Last Schedule,Age,Containers*,Images*,Selector*"
        ),
        _cron_job,
    ),
    "definitions": Printer(
        _columns("Name,Scope,Versions,Created At:date,Group*,Kind*,ShortNames*,Established:boolean*"), _definition
    ),
    "nodes.metrics.k8s.io": Printer(_USAGE_COLUMNS, _usage),
    "pods.metrics.k8s.io": Printer(_USAGE_COLUMNS, _usage),
    "scales.autoscaling": Printer(_columns("Name,Desired:integer,Available:integer,Age"), _scale),
    "events": Printer(
        _columns("Last Seen,Type,Reason,Object,Subobject*,Source*,Message,First Seen*,Count*,Name*"), _event
    ),
}
OTHERS = Printer(
    _columns("Name,Created At:date"),
    lambda obj, now: [_name(obj), obj["metadata"].get("creationTimestamp", "")],
)
