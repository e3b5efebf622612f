"""Which lists of which kinds merge, and by which member: the table behind strategic merge patch.

Everything that is not here: maps merge, lists are replaced.

Source: the `patchStrategy` and `patchMergeKey` tags in kubernetes/staging/src/k8s.io/api.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Member(NamedTuple):
    """How a member of a type merges.

    Attributes:
        type: The type of the value, or of the items of a list; `""` for one without an entry here.
        key: The member that names an item of a merging list; `""` for a list of plain values, None where
            the list is replaced.
    """

    type: str = ""
    key: str | None = None


_NAMED = Member(key="name")
_PLAIN = Member(key="")
_BY_TYPE = Member(key="type")
_METADATA = Member("ObjectMeta")
_WITH_CONDITIONS: Mapping[str, Member] = {"conditions": _BY_TYPE}
_TEMPLATED: Mapping[str, Member] = {"template": Member("PodTemplateSpec")}
_CONTAINERS = Member("Container", "name")

TYPES: Mapping[str, Mapping[str, Member]] = {
    "": {},
    "ObjectMeta": {"ownerReferences": Member(key="uid"), "finalizers": _PLAIN},
    "PodTemplateSpec": {"metadata": _METADATA, "spec": Member("PodSpec")},
    "PodSpec": {
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "ephemeralContainers": _CONTAINERS,
        "volumes": _NAMED,
        "resourceClaims": _NAMED,
        "imagePullSecrets": _NAMED,
        "schedulingGates": _NAMED,
        "hostAliases": Member(key="ip"),
        "topologySpreadConstraints": Member(key="topologyKey"),
    },
    "Container": {
        "env": _NAMED,
        "ports": Member(key="containerPort"),
        "volumeMounts": Member(key="mountPath"),
        "volumeDevices": Member(key="devicePath"),
    },
    "PodStatus": {"conditions": _BY_TYPE, "podIPs": Member(key="ip"), "hostIPs": Member(key="ip")},
    "JobTemplateSpec": {"metadata": _METADATA, "spec": Member("JobSpec")},
    "JobSpec": _TEMPLATED,
    "CronJobSpec": {"jobTemplate": Member("JobTemplateSpec")},
    "WorkloadSpec": _TEMPLATED,
    "NodeSpec": {"podCIDRs": _PLAIN},
    "NodeStatus": {"conditions": _BY_TYPE, "addresses": _BY_TYPE},
    "ServiceSpec": {"ports": Member(key="port")},
    "WithConditions": _WITH_CONDITIONS,
    # Kinds: what differs from `metadata` alone.
    "Pod": {"metadata": _METADATA, "spec": Member("PodSpec"), "status": Member("PodStatus")},
    "Job": {"metadata": _METADATA, "spec": Member("JobSpec"), "status": Member("WithConditions")},
    "CronJob": {"metadata": _METADATA, "spec": Member("CronJobSpec")},
    "Deployment": {"metadata": _METADATA, "spec": Member("WorkloadSpec"), "status": Member("WithConditions")},
    "StatefulSet": {"metadata": _METADATA, "spec": Member("WorkloadSpec"), "status": Member("WithConditions")},
    "ReplicaSet": {"metadata": _METADATA, "spec": Member("WorkloadSpec"), "status": Member("WithConditions")},
    "DaemonSet": {"metadata": _METADATA, "spec": Member("WorkloadSpec"), "status": Member("WithConditions")},
    "Namespace": {"metadata": _METADATA, "status": Member("WithConditions")},
    "Node": {"metadata": _METADATA, "spec": Member("NodeSpec"), "status": Member("NodeStatus")},
    "Service": {"metadata": _METADATA, "spec": Member("ServiceSpec"), "status": Member("WithConditions")},
    "ServiceAccount": {"metadata": _METADATA, "secrets": _NAMED},
}
_ANY_KIND: Mapping[str, Member] = {"metadata": _METADATA}


def members_of_kind(kind: str) -> Mapping[str, Member]:
    """Return how the members of a kind merge."""
    return TYPES.get(kind, _ANY_KIND)
