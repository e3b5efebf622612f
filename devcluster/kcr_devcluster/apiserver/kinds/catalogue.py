"""The catalogue of served kinds: names, subresources, field selectors, and options of their storage."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.kinds.kind import Kind, ScalePaths
from kcr_devcluster.apiserver.kinds.strategy import Strategy, strategy_at
from kcr_devcluster.apiserver.protocol.names import dns_label, dns_subdomain, path_segment
from kcr_devcluster.apiserver.schema.builtin import builtin_kinds, is_served
from kcr_devcluster.versions import DEFAULT


def _paths(*paths: str, **aliases: str) -> dict[str, tuple[str, ...]]:
    places = {path: path for path in paths} | {name.replace("__", "."): place for name, place in aliases.items()}
    return {name: tuple(place.split(".")) for name, place in places.items()}


_LABEL_NOT_SUPPORTED = "field label not supported: {}"

_POD_FIELDS = _paths(
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
    "status.phase", "status.podIP", "status.nominatedNodeName", spec__host="spec.nodeName",
    # Upstream accepts the label, and no pod has a value for it.
    status__podIPs="",
)  # fmt: skip
_EVENT_FIELDS = _paths(
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
    "reason", "reportingComponent", "type", source="source.component",
)  # fmt: skip


_BUILTIN = builtin_kinds()
_GENERIC = "generic:GenericStrategy"


def _kind(api_version: str, name: str, strategy: str = "", **traits: Any) -> Kind:
    """Return a kind of the table; the traits override the values of the table.

    Args:
        api_version: Its group and version.
        name: Its name.
        strategy: Where its strategy is, see `strategy_at`.
        **traits: Fields of `Kind`.
    """
    known = _BUILTIN[api_version, name]
    group, _, version = api_version.rpartition("/")
    said: dict[str, Any] = {
        "type": ResourceType(group, version, name, known.plural, known.namespaced),
        "short_names": known.short_names,
        "categories": known.categories,
        "subresources": tuple(name for name in ("scale", "status") if name in known.traits),
        "scale": ScalePaths() if "scale" in known.traits else None,
        "make_strategy": strategy_at(strategy) if strategy else Strategy,
        "name_rule": path_segment if "any-name" in known.traits else dns_subdomain,
    }
    return Kind(**said | traits)


NAMESPACES = _kind(
    "v1",
    "Namespace",
    "core.cluster:NamespaceStrategy",
    subresources=("finalize", "status"),
    fields=_paths("status.phase"),
    unknown_field_message=_LABEL_NOT_SUPPORTED,
    returns_deleted_object=True,
    name_rule=dns_label,
)
NODES = _kind(
    "v1",
    "Node",
    "core.cluster:NodeStrategy",
    fields=_paths("spec.unschedulable"),
    unknown_field_message=_LABEL_NOT_SUPPORTED,
)
PODS = _kind(
    "v1",
    "Pod",
    "pods.strategy:PodStrategy",
    subresources=(
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "resize",
        "status",
    ),
    fields=_POD_FIELDS,
    unknown_field_message=_LABEL_NOT_SUPPORTED,
    returns_deleted_object=True,
)
EVENTS = _kind(
    "v1",
    "Event",
    "core.events:EventStrategy",
    fields=_EVENT_FIELDS,
    # Events of events.k8s.io have no source.
    field_fallbacks=_paths(source="reportingComponent"),
    unknown_field_message=_LABEL_NOT_SUPPORTED,
    allow_create_on_update=True,
    garbage_collected=False,
)
CONFIG_MAPS = _kind("v1", "ConfigMap", "core.config:ConfigMapStrategy")
SECRETS = _kind(
    "v1", "Secret", "core.config:SecretStrategy", fields=_paths("type"), unknown_field_message=_LABEL_NOT_SUPPORTED
)
SERVICE_ACCOUNTS = _kind(
    "v1",
    "ServiceAccount",
    "access.service_accounts:ServiceAccountStrategy",
    subresources=("token",),
    returns_deleted_object=True,
)
SERVICES = _kind(
    "v1",
    "Service",
    "core.services:ServiceStrategy",
    fields=_paths("spec.clusterIP", "spec.type"),
    unknown_field_message=_LABEL_NOT_SUPPORTED,
    allow_create_on_update=True,
    returns_deleted_object=True,
    name_rule=dns_label,
)
CLAIMS = _kind(
    "v1",
    "PersistentVolumeClaim",
    make_strategy=strategy_at(_GENERIC, "persistentvolumeclaims", has_generation=False, rules="storage.claims:CLAIMS"),
    returns_deleted_object=True,
)
RESOURCE_QUOTAS = _kind("v1", "ResourceQuota", "core.limits:ResourceQuotaStrategy", returns_deleted_object=True)
LIMIT_RANGES = _kind("v1", "LimitRange", "core.limits:LimitRangeStrategy", allow_create_on_update=True)
JOBS = _kind(
    "batch/v1",
    "Job",
    "batch.job:JobStrategy",
    fields=_paths(status__successful="status.succeeded"),
    unknown_field_message='field label "{}" not supported for Job',
)
CRON_JOBS = _kind("batch/v1", "CronJob", "batch.cronjob:CronJobStrategy")
DEPLOYMENTS = _kind("apps/v1", "Deployment", "apps.deployments:DeploymentRegistryStrategy")
REPLICA_SETS = _kind("apps/v1", "ReplicaSet", "apps.deployments:ReplicaSetStrategy")
LEASES = _kind(
    "coordination.k8s.io/v1",
    "Lease",
    "core.events:LeaseStrategy",
    requires_resource_version=True,
    allow_create_on_update=True,
)
PRIORITY_CLASSES = _kind("scheduling.k8s.io/v1", "PriorityClass", "priority_classes:PriorityClassStrategy")


def _rbac_kind(name: str, strategy: str) -> Kind:
    return _kind("rbac.authorization.k8s.io/v1", name, strategy, allow_create_on_update=True)


CLUSTER_ROLES = _rbac_kind("ClusterRole", "access.rbac:ClusterRoleStrategy")
CLUSTER_ROLE_BINDINGS = _rbac_kind("ClusterRoleBinding", "access.rbac:ClusterRoleBindingStrategy")
ROLES = _rbac_kind("Role", "access.rbac:RoleStrategy")
ROLE_BINDINGS = _rbac_kind("RoleBinding", "access.rbac:RoleBindingStrategy")
DISRUPTION_BUDGETS = _kind(
    "policy/v1", "PodDisruptionBudget", "apps.budgets:BudgetStrategy", requires_resource_version=True
)
AUTOSCALERS = _kind(
    "autoscaling/v2",
    "HorizontalPodAutoscaler",
    make_strategy=strategy_at(
        _GENERIC, "horizontalpodautoscalers.autoscaling", has_generation=False, rules="autoscaling:AUTOSCALERS"
    ),
)


def _admission_kind(name: str, strategy: str) -> Kind:
    return _kind("admissionregistration.k8s.io/v1", name, f"admission.{strategy}", requires_resource_version=True)


MUTATING_WEBHOOKS = _admission_kind("MutatingWebhookConfiguration", "webhooks:WebhookConfigurationStrategy")
VALIDATING_WEBHOOKS = _admission_kind("ValidatingWebhookConfiguration", "webhooks:WebhookConfigurationStrategy")
MUTATING_POLICIES = _admission_kind("MutatingAdmissionPolicy", "policies:MutatingPolicyStrategy")
MUTATING_POLICY_BINDINGS = _admission_kind("MutatingAdmissionPolicyBinding", "bindings:MutatingBindingStrategy")
VALIDATING_POLICIES = _admission_kind("ValidatingAdmissionPolicy", "policies:ValidatingPolicyStrategy")
VALIDATING_POLICY_BINDINGS = _admission_kind("ValidatingAdmissionPolicyBinding", "bindings:ValidatingBindingStrategy")

CERTIFICATE_SIGNING_REQUESTS = Kind(
    ResourceType("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", False),
    strategy_at("access.certificates:CertificateSigningRequestStrategy"), ("csr",), (), ("approval", "status"),
    _paths("spec.signerName"), _LABEL_NOT_SUPPORTED, name_rule=path_segment)  # fmt: skip
CUSTOM_RESOURCE_DEFINITIONS = Kind(
    ResourceType("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False),
    make_strategy=strategy_at("definitions.strategy:CustomResourceDefinitionStrategy"),
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=("status",),
    requires_resource_version=True,
)

REPLICATION_CONTROLLERS = _kind(
    "v1",
    "ReplicationController",
    "apps.sets:ReplicationControllerStrategy",
    fields=_paths("status.replicas"),
    unknown_field_message=_LABEL_NOT_SUPPORTED,
)

_PLAIN = (
    REPLICATION_CONTROLLERS,
    _kind(
        "resource.k8s.io/v1",
        "ResourceSlice",
        make_strategy=strategy_at(_GENERIC, "resourceslices.resource.k8s.io", has_generation=True),
        fields=_paths("spec.driver", "spec.nodeName"),
        returns_deleted_object=True,
        unknown_field_message="field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
    ),
    _kind("v1", "PodTemplate", "apps.sets:PodTemplateStrategy", returns_deleted_object=True),
    _kind("apps/v1", "DaemonSet", "apps.sets:DaemonSetStrategy"),
    _kind("apps/v1", "StatefulSet", "apps.stateful_sets:StatefulSetStrategy", name_rule=dns_label),
)
API_SERVICES = Kind(
    ResourceType("apiregistration.k8s.io", "v1", "APIService", "apiservices", False),
    strategy_at("api_services:APIServiceStrategy"),
    categories=("api-extensions",),
    subresources=("status",),
    requires_resource_version=True,
    name_rule=path_segment,
)

_WITH_STRATEGY: tuple[Kind, ...] = (
    CLAIMS, CONFIG_MAPS, EVENTS, LIMIT_RANGES, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, SECRETS, SERVICE_ACCOUNTS,
    SERVICES, JOBS, CRON_JOBS, DEPLOYMENTS, REPLICA_SETS, LEASES, PRIORITY_CLASSES, CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS, AUTOSCALERS, API_SERVICES, CUSTOM_RESOURCE_DEFINITIONS,
    CERTIFICATE_SIGNING_REQUESTS, DISRUPTION_BUDGETS, MUTATING_POLICIES, MUTATING_POLICY_BINDINGS, MUTATING_WEBHOOKS,
    VALIDATING_POLICIES, VALIDATING_POLICY_BINDINGS, VALIDATING_WEBHOOKS, *_PLAIN,
)  # fmt: skip


# The rules of kinds on which nothing here acts, beside their schema.
_RULES: Mapping[tuple[str, str], str] = {
    ("v1", "Endpoints"): "networking.endpoints:ENDPOINTS",
    ("v1", "PersistentVolume"): "storage.volumes:VOLUMES",
    ("discovery.k8s.io/v1", "EndpointSlice"): "networking.traffic:ENDPOINT_SLICES",
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"): "generic:EMPTY_STATUS",
    ("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration"): "generic:EMPTY_STATUS",
    ("networking.k8s.io/v1", "Ingress"): "networking.ingresses:INGRESSES",
    ("networking.k8s.io/v1", "IngressClass"): "networking.ingresses:INGRESS_CLASSES",
    ("networking.k8s.io/v1", "NetworkPolicy"): "networking.traffic:NETWORK_POLICIES",
    ("storage.k8s.io/v1", "CSIDriver"): "storage.volumes:DRIVERS",
    ("storage.k8s.io/v1", "CSINode"): "storage.volumes:NODE_DRIVERS",
    ("resource.k8s.io/v1", "ResourceClaim"): "devices:CLAIMS",
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): "devices:CLAIM_TEMPLATES",
    ("storage.k8s.io/v1", "StorageClass"): "storage.volumes:STORAGE_CLASSES",
    ("storage.k8s.io/v1", "VolumeAttachment"): "storage.volumes:ATTACHMENTS",
}


_VERSION_REQUIRED = {"CSIDriver", "CSINode", "CSIStorageCapacity", "RuntimeClass", "VolumeAttachment"}
_DELETED_IS_RETURNED = {
    "CSIDriver", "CSINode", "DeviceClass", "DeviceTaintRule", "PersistentVolume", "ResourceClaim",
    "ResourceClaimTemplate", "StorageClass", "VolumeAttachment", "VolumeAttributesClass",
}  # fmt: skip
_CREATED_BY_PUT = {"Endpoints", "RuntimeClass"}
# Kinds whose metadata are not written through `/status`.
_STATUS_ALONE = {
    "DeviceTaintRule", "FlowSchema", "PodCertificateRequest", "PriorityLevelConfiguration", "ResourceClaim",
    "StorageVersionMigration", "VolumeAttachment",
}  # fmt: skip


def _generic(api_version: str, name: str) -> Kind:
    traits: dict[str, Any] = {
        "requires_resource_version": name in _VERSION_REQUIRED,
        "allow_create_on_update": name in _CREATED_BY_PUT,
        "returns_deleted_object": name in _DELETED_IS_RETURNED,
    }
    kind = _kind(api_version, name, **traits)
    has_generation = "generation" in _BUILTIN[api_version, name].traits
    if name == "ControllerRevision":
        make = strategy_at("apps.sets:ControllerRevisionStrategy", kind.type.display, has_generation=has_generation)
    else:
        rules = _RULES.get((api_version, name), "")
        resets = ("spec", "metadata") if name in _STATUS_ALONE else ("spec",)
        make = strategy_at(
            _GENERIC, kind.type.display, has_generation=has_generation, rules=rules, status_resets=resets
        )
    return replace(kind, make_strategy=make)


_NAMED = {(kind.type.api_version, kind.type.kind) for kind in _WITH_STRATEGY}
# Those of all versions of Kubernetes, and of the one that is served by default.
ALL_KINDS: tuple[Kind, ...] = (*_WITH_STRATEGY, *(_generic(*names) for names in _BUILTIN if names not in _NAMED))
KINDS = tuple(kind for kind in ALL_KINDS if is_served(kind.type.api_version, kind.type.kind, DEFAULT))
