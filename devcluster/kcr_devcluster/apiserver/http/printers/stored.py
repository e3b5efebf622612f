"""The columns and cells of kinds of which this server has nothing but objects, and of admission's configuration.

Source: kubernetes/pkg/printers/internalversion/printers.go, printHorizontalPodAutoscaler, printEndpointSlice,
printIngressClass, printFlowSchema, printResourceSlice, and those of admissionregistration, storage and resource;
kube-aggregator/pkg/registry/apiservice/etcd/etcd.go, ConvertToTable.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcr_devcluster.apiserver.protocol.manifests import Manifest

Cells = list[Any]
_NONE, _UNSET, _UNKNOWN = "<none>", "<unset>", "<unknown>"
_NO_PORTS: Sequence[Manifest] = ({},)
_MOST_METRICS, _MOST_SHOWN = 2, 3
_SOURCES = {
    "ContainerResource": "containerResource", "External": "external", "Object": "object", "Pods": "pods",
    "Resource": "resource",
}  # fmt: skip


def _autoscaler(obj: Manifest, since: str) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    return [
        f"{target.get('kind', '')}/{target.get('name', '')}", _metrics(spec.get("metrics") or ()),
        str(spec.get("minReplicas", _UNSET)), spec.get("maxReplicas", 0), status.get("currentReplicas", 0), since,
    ]  # fmt: skip


def _metrics(metrics: Sequence[Manifest]) -> str:
    """Return the targets; the measured values stay unknown, because nothing measures them."""
    if not metrics:
        return _NONE
    shown = [_metric(one) for one in metrics]
    more = f" + {len(shown) - _MOST_METRICS} more..." if len(shown) > _MOST_METRICS else ""
    return ", ".join(shown[:_MOST_METRICS]) + more


def _metric(metric: Manifest) -> str:
    kind = metric.get("type", "")
    source: Manifest = metric.get(_SOURCES.get(kind, "")) or {}
    target = source.get("target") or {}
    name = f"{source['name']}: " if kind in ("Resource", "ContainerResource") and source.get("name") else ""
    if "averageValue" in target:
        average = " (avg)" if kind in ("External", "Object") else ""
        return f"{name}{_UNKNOWN}/{target['averageValue']}{average}"
    wanted = f"{target['averageUtilization']}%" if "averageUtilization" in target else target.get("value", "<auto>")
    return f"{name}{_UNKNOWN}/{wanted}"


def _api_service(obj: Manifest, since: str) -> Cells:
    service, conditions = (obj.get("spec") or {}).get("service"), (obj.get("status") or {}).get("conditions") or ()
    found: Manifest = next((one for one in conditions if one.get("type") == "Available"), {})
    available = found.get("status", "Unknown")
    if available != "True" and found:
        available = f"{available} ({found.get('reason', '')})"
    return [f"{service['namespace']}/{service['name']}" if service else "Local", available, since]


def _endpoint_slice(obj: Manifest, since: str) -> Cells:
    ports = [str(port["port"]) if port.get("port") else "*" for port in obj.get("ports") or ()]
    addresses = [address for one in obj.get("endpoints") or () for address in one.get("addresses") or ()]
    return [obj.get("addressType", ""), _shown(ports, _UNSET), _shown(addresses, _UNSET), since]


def _endpoints(obj: Manifest, since: str) -> Cells:
    found = [
        _host_port(address.get("ip", ""), port.get("port"))
        for subset in obj.get("subsets") or ()
        for port in subset.get("ports") or _NO_PORTS
        for address in subset.get("addresses") or ()
    ]
    return [_shown(found, _NONE if not obj.get("subsets") else ""), since]


def _host_port(address: str, port: int | None) -> str:
    if port is None:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _controller_revision(obj: Manifest, since: str) -> Cells:
    owners = obj["metadata"].get("ownerReferences") or ()
    owner: Manifest = next((one for one in owners if one.get("controller")), {})
    group = owner.get("apiVersion", "").rpartition("/")[0]
    kind = ".".join(part for part in (owner.get("kind", ""), group) if part).lower()
    return [f"{kind}/{owner['name']}" if owner else _NONE, obj.get("revision", 0), since]


def _csi_driver(obj: Manifest, since: str) -> Cells:
    spec = obj.get("spec") or {}
    tokens = spec.get("tokenRequests")
    return [
        spec.get("attachRequired", True), spec.get("podInfoOnMount", False), spec.get("storageCapacity", False),
        _UNSET if tokens is None else ",".join(one.get("audience", "") for one in tokens),
        spec.get("requiresRepublish", False), ",".join(spec.get("volumeLifecycleModes") or ()) or _NONE, since,
    ]  # fmt: skip


def _volume_attachment(obj: Manifest, since: str) -> Cells:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    volume = (spec.get("source") or {}).get("persistentVolumeName", "")
    return [spec.get("attacher", ""), volume, spec.get("nodeName", ""), status.get("attached", False), since]


def _resource_claim(obj: Manifest, since: str) -> Cells:
    status = obj.get("status") or {}
    is_deleted, is_allocated = "deletionTimestamp" in obj["metadata"], "allocation" in status
    held = {
        "deleted": is_deleted, "pending": not is_deleted and not is_allocated, "allocated": is_allocated,
        "reserved": is_allocated and bool(status.get("reservedFor")),
    }  # fmt: skip
    return [",".join(state for state, holds in held.items() if holds), since]


def _priority_level(obj: Manifest, since: str) -> Cells:
    spec = obj.get("spec") or {}
    limited = spec.get("limited") or {}
    queuing = (limited.get("limitResponse") or {}).get("queuing") or {}
    return [
        spec.get("type", ""), limited.get("nominalConcurrencyShares", _NONE),
        *(queuing.get(name, _NONE) for name in ("queues", "handSize", "queueLengthLimit")), since,
    ]  # fmt: skip


def _shown(texts: Sequence[str], empty: str) -> str:
    more = f" + {len(texts) - _MOST_SHOWN} more..." if len(texts) > _MOST_SHOWN else ""
    return (",".join(texts[:_MOST_SHOWN]) or empty) + more


def _ingress_class(obj: Manifest, since: str) -> Cells:
    spec = obj.get("spec") or {}
    reference = spec.get("parameters")
    parameters = _NONE
    if reference:
        group = f".{reference['apiGroup']}" if reference.get("apiGroup") else ""
        parameters = f"{reference.get('kind', '')}{group}/{reference.get('name', '')}"
    return [spec.get("controller", ""), parameters, since]


def _flow_schema(obj: Manifest, since: str) -> Cells:
    spec, conditions = obj.get("spec") or {}, (obj.get("status") or {}).get("conditions") or ()
    level = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
    distinguisher = (spec.get("distinguisherMethod") or {}).get("type", _NONE)
    missing = next((one.get("status") for one in conditions if one.get("type") == "Dangling"), "?")
    return [level, spec.get("matchingPrecedence", 0), distinguisher, since, missing]


def _resource_slice(obj: Manifest, since: str) -> Cells:
    spec = obj.get("spec") or {}
    return [spec.get("nodeName", _UNSET), spec.get("driver", ""), (spec.get("pool") or {}).get("name", ""), since]


def _policy(rules: str) -> Callable[[Manifest, str], Cells]:
    def cells(obj: Manifest, since: str) -> Cells:
        spec = obj.get("spec") or {}
        kind = spec.get("paramKind")
        parameters = _UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
        return [len(spec.get(rules) or ()), parameters, since]

    return cells


def _policy_binding(obj: Manifest, since: str) -> Cells:
    spec = obj.get("spec") or {}
    return [spec.get("policyName", ""), _parameter(spec.get("paramRef") or {}), since]


def _parameter(reference: Manifest) -> str:
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return _UNSET if reference.get("selector") is None else _go_selector(reference["selector"])


def _go_selector(selector: Manifest) -> str:
    """Return a label selector as Go prints the struct."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    terms = "".join(
        f"LabelSelectorRequirement{{Key:{one.get('key', '')},Operator:{one.get('operator', '')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    terms = f"MatchExpressions:[]LabelSelectorRequirement{{{terms}}},"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},{terms}}}"


def _webhooks(obj: Manifest, since: str) -> Cells:
    return [len(obj.get("webhooks") or ()), since]


_BINDING_COLUMNS = "Name,PolicyName,ParamRef,Age"
# The columns by resource, each with its type behind a colon where it is no text; and the cells behind the name, given
# the age.
STORED: Mapping[str, tuple[str, Callable[[Manifest, str], Cells]]] = {
    "horizontalpodautoscalers.autoscaling": ("Name,Reference,Targets,MinPods,MaxPods,Replicas,Age", _autoscaler),
    "apiservices.apiregistration.k8s.io": ("Name,Service,Available,Age", _api_service),
    "endpointslices.discovery.k8s.io": ("Name,AddressType,Ports,Endpoints,Age", _endpoint_slice),
    "flowschemas.flowcontrol.apiserver.k8s.io": (
        "Name,PriorityLevel,MatchingPrecedence,DistinguisherMethod,Age,MissingPL",
        _flow_schema,
    ),
    "resourceslices.resource.k8s.io": ("Name,Node,Driver,Pool,Age", _resource_slice),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": (
        "Name,Mutations:integer,ParamKind,Age",
        _policy("mutations"),
    ),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": (_BINDING_COLUMNS, _policy_binding),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": ("Name,Webhooks:integer,Age", _webhooks),
    "validatingadmissionpolicies.admissionregistration.k8s.io": (
        "Name,Validations:integer,ParamKind,Age",
        _policy("validations"),
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (_BINDING_COLUMNS, _policy_binding),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": ("Name,Webhooks:integer,Age", _webhooks),
    "ingressclasses.networking.k8s.io": ("Name,Controller,Parameters,Age", _ingress_class),
    "endpoints": ("Name,Endpoints,Age", _endpoints),
    "controllerrevisions.apps": ("Name,Controller,Revision,Age", _controller_revision),
    "csidrivers.storage.k8s.io": (
        "Name,AttachRequired:boolean,PodInfoOnMount:boolean,StorageCapacity:boolean,TokenRequests,"
        "RequiresRepublish:boolean,Modes,Age",
        _csi_driver,
    ),
    "csinodes.storage.k8s.io": (
        "Name,Drivers:integer,Age",
        lambda obj, since: [len((obj.get("spec") or {}).get("drivers") or ()), since],
    ),
    "volumeattachments.storage.k8s.io": ("Name,Attacher,PV,Node,Attached:boolean,Age", _volume_attachment),
    "volumeattributesclasses.storage.k8s.io": (
        "Name,DriverName,Age",
        lambda obj, since: [obj.get("driverName", ""), since],
    ),
    "runtimeclasses.node.k8s.io": ("Name,Handler,Age", lambda obj, since: [obj.get("handler", ""), since]),
    "deviceclasses.resource.k8s.io": ("Name,Age", lambda obj, since: [since]),
    "resourceclaims.resource.k8s.io": ("Name,State,Age", _resource_claim),
    "resourceclaimtemplates.resource.k8s.io": ("Name,Age", lambda obj, since: [since]),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (
        "Name,Type,NominalConcurrencyShares,Queues,HandSize,QueueLengthLimit,Age",
        _priority_level,
    ),
}
