"""The columns and cells of kinds whose cells depend on no more than the object and its age.

Source: kubernetes/pkg/printers/internalversion/printers.go.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kcr.api.durations import age, human_duration
from kcr_devcluster.apiserver.http.printers.stored import STORED
from kcr_devcluster.apiserver.protocol import names
from kcr_devcluster.apiserver.protocol.manifests import Manifest

Cells = list[Any]
_NONE, _UNSET = "<none>", "<unset>"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_MOST_HOSTS = 3
_ROLE = "node-role.kubernetes.io/"
_LIMITS = "limits."
_SCHEDULED = (
    "desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable",
)  # fmt: skip


def selector_text(selector: Manifest | None) -> str:
    """Return a label selector as kubectl shows it; `<error>` where it is invalid."""
    words = names.selector_text(selector or {})
    return "<error>" if words is None else words or _NONE


def templated(spec: Manifest) -> Cells:
    """Return the wide cells of a kind with a pod template: containers and images."""
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    return [",".join(one.get("name", "") for one in containers), ",".join(one.get("image", "") for one in containers)]


def _parts(obj: Manifest) -> tuple[Manifest, Manifest]:
    return obj.get("spec") or {}, obj.get("status") or {}


def _deployment(obj: Manifest, since: str) -> Cells:
    spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    counts = [status.get(name, 0) for name in ("updatedReplicas", "availableReplicas")]
    return [ready, *counts, since, *templated(spec), selector_text(spec.get("selector"))]


def _stateful_set(obj: Manifest, since: str) -> Cells:
    spec, status = _parts(obj)
    return [f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}", since, *templated(spec)]


def _replica_set(obj: Manifest, since: str) -> Cells:
    spec, status = _parts(obj)
    counts = [spec.get("replicas", 1), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [*counts, since, *templated(spec), selector_text(spec.get("selector"))]


def _replication_controller(obj: Manifest, since: str) -> Cells:
    spec = obj.get("spec") or {}
    labels = {"matchLabels": spec.get("selector") or {}}
    return _replica_set({**obj, "spec": {**spec, "selector": labels}}, since)


def _daemon_set(obj: Manifest, since: str) -> Cells:
    spec, status = _parts(obj)
    counts = [status.get(name, 0) for name in _SCHEDULED]
    nodes = ((spec.get("template") or {}).get("spec") or {}).get("nodeSelector")
    chosen = selector_text({"matchLabels": nodes or {}})
    return [*counts, chosen, since, *templated(spec), selector_text(spec.get("selector"))]


def _phase(obj: Manifest) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else str(_parts(obj)[1].get("phase", ""))


def _modes(modes: list[str] | None) -> str:
    return ",".join(_MODES.get(one, one) for one in modes or ())


def _claim(obj: Manifest, since: str) -> Cells:
    spec, status = _parts(obj)
    bound = status if spec.get("volumeName") else {}
    return [
        _phase(obj), spec.get("volumeName", ""), (bound.get("capacity") or {}).get("storage", ""),
        _modes(bound.get("accessModes")), spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or _UNSET, since, spec.get("volumeMode") or _UNSET,
    ]  # fmt: skip


def _volume(obj: Manifest, since: str) -> Cells:
    spec, status = _parts(obj)
    claim = spec.get("claimRef") or {}
    return [
        (spec.get("capacity") or {}).get("storage", ""), _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""), _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "", spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or _UNSET, status.get("reason", ""), since,
        spec.get("volumeMode") or _UNSET,
    ]  # fmt: skip


def _storage_class(obj: Manifest, since: str) -> Cells:
    return [
        obj.get("provisioner", ""), obj.get("reclaimPolicy", "Delete"), obj.get("volumeBindingMode", "Immediate"),
        obj.get("allowVolumeExpansion", False), since,
    ]  # fmt: skip


def _ingress(obj: Manifest, since: str) -> Cells:
    spec, status = _parts(obj)
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    shown = ",".join(hosts[:_MOST_HOSTS]) or "*"
    more = f" + {len(hosts) - _MOST_HOSTS} more..." if len(hosts) > _MOST_HOSTS else ""
    points = (status.get("loadBalancer") or {}).get("ingress") or ()
    addresses = ",".join(one.get("ip") or one.get("hostname", "") for one in points)
    ports = "80, 443" if spec.get("tls") else "80"
    return [spec.get("ingressClassName") or _NONE, shown + more, addresses, ports, since]


def _disruption_budget(obj: Manifest, since: str) -> Cells:
    spec, status = _parts(obj)
    bounds = [str(spec.get(name, "N/A")) for name in ("minAvailable", "maxUnavailable")]
    return [*bounds, status.get("disruptionsAllowed", 0), since]


def _role_binding(obj: Manifest, since: str) -> Cells:
    role, subjects = obj.get("roleRef") or {}, obj.get("subjects") or ()
    named = {kind: [one for one in subjects if one.get("kind") == kind] for kind in ("User", "Group", "ServiceAccount")}
    accounts = ", ".join(f"{one.get('namespace', '')}/{one.get('name', '')}" for one in named["ServiceAccount"])
    people = [", ".join(one.get("name", "") for one in named[kind]) for kind in ("User", "Group")]
    return [f"{role.get('kind', '')}/{role.get('name', '')}", since, *people, accounts]


def _signing_request(obj: Manifest, since: str) -> Cells:
    spec, status = _parts(obj)
    seconds = spec.get("expirationSeconds")
    duration = human_duration(timedelta(seconds=seconds)) if seconds is not None else _NONE
    types = [one.get("type", "") for one in status.get("conditions") or ()]
    said = [name for name in ("Approved", "Denied") if name in types] or ["Pending"]
    said += ["Failed"] if "Failed" in types else []
    said += ["Issued"] if status.get("certificate") else []
    return [since, spec.get("signerName", ""), spec.get("username", ""), duration, ",".join(said)]


def _priority_class(obj: Manifest, since: str) -> Cells:
    policy = obj.get("preemptionPolicy", "PreemptLowerPriority")
    return [obj.get("value", 0), obj.get("globalDefault", False), since, policy]


def condition_of(obj: Manifest, kind: str) -> Mapping[str, Any]:
    """Return a condition of an object, an empty one where there is none."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def _node(node: Manifest, since: str) -> Cells:
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    roles = sorted(
        label.removeprefix(_ROLE) for label in node["metadata"].get("labels") or () if label.startswith(_ROLE)
    )
    addresses = {one.get("type"): one.get("address") for one in reversed(status.get("addresses") or ())}
    return [
        _node_status(node), ",".join(roles) or _NONE, since, info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or _NONE, addresses.get("ExternalIP") or _NONE,
        info.get("osImage") or "<unknown>", info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]  # fmt: skip


def _node_status(node: Manifest) -> str:
    ready = condition_of(node, "Ready").get("status")
    words = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{words},SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else words


def _quota(quota: Manifest, since: str) -> Cells:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    uses = {name: f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard)}
    requests = ", ".join(use for name, use in uses.items() if not name.startswith(_LIMITS))
    limits = ", ".join(use for name, use in uses.items() if name.startswith(_LIMITS))
    return [requests, limits, since]


def _service(service: Manifest, since: str) -> Cells:
    spec = service.get("spec") or {}
    ports = ",".join(map(_port, spec.get("ports") or ()))
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    return [
        spec.get("type", "ClusterIP"), spec.get("clusterIP") or _NONE, _external_address(service), ports or _NONE,
        since, selector or _NONE,
    ]  # fmt: skip


def _port(port: Manifest) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


def _external_address(service: Manifest) -> str:
    spec, status = _parts(service)
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    points = (status.get("loadBalancer") or {}).get("ingress") or () if kind == "LoadBalancer" else ()
    found = sorted({one.get("ip") or one.get("hostname", "") for one in points}) + (spec.get("externalIPs") or [])
    return ",".join(found) or ("<pending>" if kind == "LoadBalancer" else _NONE)


def _pod_template(obj: Manifest, since: str) -> Cells:
    labels = ((obj.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return [*templated(obj), ",".join(f"{name}={value}" for name, value in sorted(labels.items())) or _NONE]


_REPLICA_COLUMNS = "Name,Desired:integer,Current:integer,Ready:integer,Age,Containers*,Images*,Selector*"
# The columns by resource, each with its type behind a colon where it is no text, and with a star where it is a wide
# one; and the cells behind the name, given the age.
RESOURCES: Mapping[str, tuple[str, Callable[[Manifest, str], Cells]]] = {
    "configmaps": (
        "Name,Data,Age", lambda obj, since: [len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), since]
    ),
    "secrets": (
        "Name,Type,Data,Age", lambda obj, since: [obj.get("type", ""), len(obj.get("data") or ()), since]
    ),
    "serviceaccounts": ("Name,Age", lambda obj, since: [since]),
    "namespaces": ("Name,Status,Age", lambda obj, since: [_parts(obj)[1].get("phase", ""), since]),
    "leases.coordination.k8s.io": (
        "Name,Holder,Age", lambda obj, since: [_parts(obj)[0].get("holderIdentity", ""), since]
    ),
    "resourcequotas": ("Name,Request,Limit,Age", _quota),
    "services": ("Name,Type,Cluster-IP,External-IP,Port(s),Age,Selector*", _service),
    "nodes": (
        "Name,Status,Roles,Age,Version,Internal-IP*,External-IP*,OS-Image*,Kernel-Version*,Container-Runtime*", _node
    ),
    "deployments.apps": ("Name,Ready,Up-to-date,Available,Age,Containers*,Images*,Selector*", _deployment),
    "statefulsets.apps": ("Name,Ready,Age,Containers*,Images*", _stateful_set),
    "replicasets.apps": (_REPLICA_COLUMNS, _replica_set),
    "replicationcontrollers": (
        _REPLICA_COLUMNS, _replication_controller
    ),
    "daemonsets.apps": (
        "Name,Desired:integer,Current:integer,Ready:integer,Up-to-date:integer,Available:integer,Node Selector,Age,"
        "Containers*,Images*,Selector*", _daemon_set
    ),
    "persistentvolumeclaims": (
        "Name,Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age,VolumeMode*", _claim
    ),
    "persistentvolumes": (
        "Name,Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age,"
        "VolumeMode*", _volume
    ),
    "storageclasses.storage.k8s.io": (
        "Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age", _storage_class
    ),
    "ingresses.networking.k8s.io": ("Name,Class,Hosts,Address,Ports,Age", _ingress),
    "networkpolicies.networking.k8s.io": (
        "Name,Pod-Selector,Age", lambda obj, since: [selector_text(_parts(obj)[0].get("podSelector")), since]
    ),
    "poddisruptionbudgets.policy": (
        "Name,Min Available,Max Unavailable,Allowed Disruptions:integer,Age", _disruption_budget
    ),
    "rolebindings.rbac.authorization.k8s.io": ("Name,Role,Age,Users*,Groups*,ServiceAccounts*", _role_binding),
    "clusterrolebindings.rbac.authorization.k8s.io": ("Name,Role,Age,Users*,Groups*,ServiceAccounts*", _role_binding),
    "certificatesigningrequests.certificates.k8s.io": (
        "Name,Age,SignerName,Requestor,RequestedDuration,Condition", _signing_request
    ),
    "podtemplates": ("Name,Containers,Images,Pod Labels", _pod_template),
    "priorityclasses.scheduling.k8s.io": (
        "Name,Value:integer,Global-Default:boolean,Age,PreemptionPolicy", _priority_class
    ),
    **STORED,
}  # fmt: skip


def cells_of(display: str, obj: Manifest, now: datetime) -> Cells:
    """Return the cells of an object of a resource that has columns."""
    metadata = obj["metadata"]
    default = (metadata.get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    name = f"{metadata['name']} (default)" if default and "provisioner" in obj else metadata["name"]
    return [name, *RESOURCES[display][1](obj, age(metadata.get("creationTimestamp"), now))]
