"""The cells of a Pod, above all its STATUS, which is computed and stands nowhere in the object.

Source: kubernetes/pkg/printers/internalversion/printers.go, printPod.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kcr.api.durations import age
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_NONE = "<none>"
Report = Mapping[str, Any]


def pod_cells(pod: Manifest, now: datetime) -> list[Any]:
    """Return the cells: name, ready, status, restarts, age and the wide ones."""
    spec, status, metadata = pod.get("spec") or {}, pod.get("status") or {}, pod["metadata"]
    sidecars = _sidecars(spec)
    reports = [
        *status.get("containerStatuses", ()),
        *(one for one in status.get("initContainerStatuses", ()) if one.get("name") in sidecars),
    ]
    ready = sum(1 for one in reports if one.get("ready") and _state(one, "running") is not None)
    gates = spec.get("readinessGates") or ()
    passed = sum(1 for gate in gates if _condition(status, gate.get("conditionType", "")).get("status") == "True")
    addresses = status.get("podIPs") or ()
    return [
        metadata["name"], f"{ready}/{len(spec.get('containers') or ()) + len(sidecars)}", pod_status(pod),
        _restarts(pod, now), age(metadata.get("creationTimestamp"), now),
        addresses[0]["ip"] if addresses else status.get("podIP") or _NONE, spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE, f"{passed}/{len(gates)}" if gates else _NONE,
    ]  # fmt: skip


def pod_status(pod: Manifest) -> str:
    """Return the word that kubectl shows under STATUS."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    word = status.get("reason") or status.get("phase") or ""
    if _condition(status, "PodScheduled").get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    initialising = _initialising(spec, status)
    if initialising:
        word = initialising
    # Containers count once all init containers are done, or when the pod has been initialised before.
    if not initialising or _condition(status, "Initialized").get("status") == "True":
        word = _of_containers(word, status)
    if "deletionTimestamp" not in pod["metadata"]:
        return str(word)
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return str(word) if status.get("phase") in ("Succeeded", "Failed") else "Terminating"


def _initialising(spec: Manifest, status: Manifest) -> str:
    """Return how far the init containers are, `""` when they are all through."""
    total, sidecars = len(spec.get("initContainers") or ()), _sidecars(spec)
    for position, report in enumerate(status.get("initContainerStatuses") or ()):
        ended, waiting = _state(report, "terminated"), _state(report, "waiting")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if report.get("name") in sidecars and report.get("started"):
            continue
        if ended is not None:
            return f"Init:{ended.get('reason') or _exit(ended)}"
        reason = (waiting or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{position}/{total}"
    return ""


def _of_containers(word: str, status: Manifest) -> str:
    running, failure = False, ""
    for report in reversed(status.get("containerStatuses") or ()):
        waiting, ended = _state(report, "waiting"), _state(report, "terminated")
        if waiting is not None and waiting.get("reason"):
            word = waiting["reason"]
        elif ended is not None:
            word = ended.get("reason") or _exit(ended)
        elif report.get("ready") and _state(report, "running") is not None:
            running = True
        if ended is not None and ended.get("exitCode", 0) != 0:
            failure = ended.get("reason") or _exit(ended)
    if word != "Completed":
        return word
    if running:
        return "Running" if _condition(status, "Ready").get("status") == "True" else failure or "NotReady"
    return failure or word


def _exit(ended: Report) -> str:
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(pod: Manifest, now: datetime) -> str:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = _sidecars(spec)
    init = status.get("initContainerStatuses") or ()
    # While the pod initialises, its init containers count; afterwards only those that run alongside.
    counted: Iterable[Report] = init
    if not _initialising(spec, status):
        alongside = [report for report in init if report.get("name") in sidecars]
        counted = [*alongside, *(status.get("containerStatuses") or ())]
    total = sum(report.get("restartCount", 0) for report in counted)
    ends = [
        ended["finishedAt"]
        for report in counted
        if (ended := (report.get("lastState") or {}).get("terminated")) and ended.get("finishedAt")
    ]
    return f"{total} ({age(max(ends), now)} ago)" if total and ends else str(total)


def _sidecars(spec: Manifest) -> set[str]:
    return {one.get("name", "") for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}


def _state(report: Report, name: str) -> Report | None:
    found: Report | None = (report.get("state") or {}).get(name)
    return found


def _condition(status: Manifest, kind: str) -> Report:
    return next((one for one in status.get("conditions") or () if one.get("type") == kind), {})
