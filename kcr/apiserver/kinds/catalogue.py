"""What is served: the kinds, their names, and the traits in which they differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from kcr.api.resources import ResourceType
from kcr.apiserver.kinds.batch.cronjob import CronJobStrategy
from kcr.apiserver.kinds.batch.job import JobStrategy
from kcr.apiserver.kinds.core import (
    ConfigMapStrategy,
    EventStrategy,
    LeaseStrategy,
    LimitRangeStrategy,
    NamespaceStrategy,
    NodeStrategy,
    ResourceQuotaStrategy,
    SecretStrategy,
)
from kcr.apiserver.kinds.generic import GenericStrategy
from kcr.apiserver.kinds.names import dns_label, dns_subdomain, path_segment
from kcr.apiserver.kinds.pods.strategy import PodStrategy
from kcr.apiserver.kinds.strategy import Manifest, Strategy
from kcr.apiserver.schema.builtin import builtin_kinds, kind_shape
from kcr.apiserver.schema.shape import Shape

# Fields that Go's types hold by value: absent, they compare as their zero.
ZEROS: Mapping[str, str] = {"status.successful": "0", "spec.unschedulable": "false", "spec.hostNetwork": "false"}
_EVERY_KIND = ("metadata.name", "metadata.namespace")
MAIN_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
# What each subresource can do.
SUBRESOURCE_VERBS: Mapping[str, tuple[str, ...]] = {
    "scale": ("get", "patch", "update"),
    "status": ("get", "patch", "update"),
    "log": ("get",),
    "binding": ("create",),
    "eviction": ("create",),
    "finalize": ("update",),
}


# What subresources speak that do not speak the object's own kind: group, version, kind; `""` for the object's.
SUBRESOURCE_KINDS: Mapping[str, tuple[str, str, str]] = {
    "binding": ("", "", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}


class ScalePaths(NamedTuple):
    """Where the objects of a kind have what their `/scale` shows.

    Attributes:
        replicas: The number that is wanted.
        status_replicas: The number that there is.
        selector: The label selector of the pods, or their labels.
    """

    replicas: tuple[str, ...] = ("spec", "replicas")
    status_replicas: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("spec", "selector")


class View(NamedTuple):
    """How a kind shows the objects of another one: the same objects in another version.

    Attributes:
        of: The kind whose objects they are.
        shape: The fields of the version.
        take: Turns a manifest of the version into one of `of`, in place.
        show: Turns a manifest of `of` into one of the version, in place.
        warning: What every answer says.
    """

    of: "Kind"
    shape: Shape
    take: Callable[[Manifest], None]
    show: Callable[[Manifest], None]
    warning: str


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind as this server serves it.

    Attributes:
        type: Group, version, kind, plural and scope.
        strategy: Its defaults, preparation and validation.
        short_names: What kubectl also calls it.
        categories: `all` for what `kubectl get all` lists.
        subresources: Keys of `SUBRESOURCE_VERBS`.
        fields: Paths that field selectors may name; a path maps to where its value is.
        unknown_field: The refusal of another path, with `{}` for the path.
        needs_version: Whether a PUT must name the resourceVersion.
        put_creates: Whether a PUT of an absent object creates it.
        delete_answers_object: Whether a DELETE answers with the object, not with a Status.
        name_rule: Returns what keeps a text from being a name.
        collectable: Whether the garbage collector's finalizers apply.
        scale: What `/scale` reads and writes; None where there is no such subresource.
        view: Set where the objects are those of another kind.
    """

    type: ResourceType
    strategy: Strategy = field(default_factory=Strategy)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unknown_field: str = '"{}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    needs_version: bool = False
    put_creates: bool = False
    delete_answers_object: bool = False
    name_rule: Callable[[str], tuple[str, ...]] = dns_subdomain
    collectable: bool = True
    scale: ScalePaths | None = None
    view: View | None = None

    @property
    def stored(self) -> "Kind":
        """The kind whose objects these are: itself, but for views."""
        return self if self.view is None else self.view.of

    @cached_property
    def shape(self) -> Shape:
        """The fields of its objects."""
        return kind_shape(self.type.api_version, self.type.kind) if self.view is None else self.view.shape

    @property
    def verbs(self) -> tuple[str, ...]:
        """What can be done with objects of this kind."""
        return tuple(verb for verb in MAIN_VERBS if verb != "deletecollection" or self.type.plural != "namespaces")

    @cached_property
    def head(self) -> bytes:
        """How the JSON of an object begins: kind and apiVersion, which the storage leaves out."""
        return f'{{"kind":"{self.type.kind}","apiVersion":"{self.type.api_version}",'.encode()

    @property
    def singular(self) -> str:
        """The name of one."""
        return self.type.kind.lower()

    def has_field(self, path: str) -> bool:
        """Return whether field selectors may name this path."""
        if path == "metadata.namespace" and not self.type.namespaced:
            return not self.fields
        return path in _EVERY_KIND or path in self.fields


def _paths(*paths: str, **aliases: str) -> dict[str, tuple[str, ...]]:
    places = {path: path for path in paths} | {name.replace("__", "."): place for name, place in aliases.items()}
    return {name: tuple(place.split(".")) for name, place in places.items()}


_LABEL_NOT_SUPPORTED = "field label not supported: {}"

_POD_FIELDS = _paths(
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
    "status.phase", "status.podIP", "status.nominatedNodeName", spec__host="spec.nodeName",
)  # fmt: skip
_EVENT_FIELDS = _paths(
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
    "reason", "reportingComponent", "type", source="source.component",
)  # fmt: skip


_BUILTIN = builtin_kinds()


def _kind(api_version: str, name: str, strategy: Strategy | None = None, **traits: Any) -> Kind:
    """Return a kind of the table; the traits are those in which it differs from what the table says."""
    known = _BUILTIN[api_version, name]
    group, _, version = api_version.rpartition("/")
    said: dict[str, Any] = {
        "type": ResourceType(group, version, name, known.plural, known.namespaced),
        "short_names": known.short_names,
        "categories": known.categories,
        "subresources": tuple(name for name in ("scale", "status") if name in known.traits),
        "scale": ScalePaths() if "scale" in known.traits else None,
        "strategy": strategy or Strategy(),
        "name_rule": path_segment if "any-name" in known.traits else dns_subdomain,
    }
    return Kind(**said | traits)


NAMESPACES = _kind(
    "v1",
    "Namespace",
    NamespaceStrategy(),
    subresources=("finalize", "status"),
    fields=_paths("status.phase"),
    unknown_field=_LABEL_NOT_SUPPORTED,
    delete_answers_object=True,
    name_rule=dns_label,
)
NODES = _kind("v1", "Node", NodeStrategy(), fields=_paths("spec.unschedulable"), unknown_field=_LABEL_NOT_SUPPORTED)
PODS = _kind(
    "v1",
    "Pod",
    PodStrategy(),
    subresources=("binding", "eviction", "log", "status"),
    fields=_POD_FIELDS,
    unknown_field=_LABEL_NOT_SUPPORTED,
    delete_answers_object=True,
)
EVENTS = _kind(
    "v1",
    "Event",
    EventStrategy(),
    fields=_EVENT_FIELDS,
    unknown_field=_LABEL_NOT_SUPPORTED,
    put_creates=True,
    collectable=False,
)
CONFIG_MAPS = _kind("v1", "ConfigMap", ConfigMapStrategy())
SECRETS = _kind("v1", "Secret", SecretStrategy(), fields=_paths("type"), unknown_field=_LABEL_NOT_SUPPORTED)
SERVICE_ACCOUNTS = _kind("v1", "ServiceAccount", delete_answers_object=True)
SERVICES = _kind("v1", "Service", put_creates=True, delete_answers_object=True)
RESOURCE_QUOTAS = _kind("v1", "ResourceQuota", ResourceQuotaStrategy(), delete_answers_object=True)
LIMIT_RANGES = _kind("v1", "LimitRange", LimitRangeStrategy(), put_creates=True)
JOBS = _kind(
    "batch/v1",
    "Job",
    JobStrategy(),
    fields=_paths(status__successful="status.succeeded"),
    unknown_field='field label "{}" not supported for Job',
)
CRON_JOBS = _kind("batch/v1", "CronJob", CronJobStrategy())
LEASES = _kind("coordination.k8s.io/v1", "Lease", LeaseStrategy(), needs_version=True, put_creates=True)

_OWN: tuple[Kind, ...] = (
    CONFIG_MAPS, EVENTS, LIMIT_RANGES, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, SECRETS, SERVICE_ACCOUNTS, SERVICES,
    JOBS, CRON_JOBS, LEASES,
)  # fmt: skip


def _idle(api_version: str, name: str) -> Kind:
    kind = _kind(api_version, name)
    has_generation = "generation" in _BUILTIN[api_version, name].traits
    return replace(kind, strategy=GenericStrategy(kind.type.display, has_generation=has_generation))


_NAMED = {(kind.type.api_version, kind.type.kind) for kind in _OWN}
KINDS: tuple[Kind, ...] = (*_OWN, *(_idle(*names) for names in _BUILTIN if names not in _NAMED))
