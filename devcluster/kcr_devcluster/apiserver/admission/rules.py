"""Which requests a rule matches: by operation, resource, version and scope; by labels of namespace and object.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/{rules,namespace,object}.
"""

from collections.abc import Iterator, Mapping, Sequence

from kcr_devcluster.apiserver.kinds.catalogue import NAMESPACES
from kcr_devcluster.apiserver.kinds.kind import SUBRESOURCE_KINDS, Kind
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import selects
from kcr_devcluster.apiserver.protocol.responses import not_found
from kcr_devcluster.apiserver.storage.admission import CREATE, UPDATE, AdmissionAttributes
from kcr_devcluster.apiserver.storage.storage import Storage

_GROUP = "admissionregistration.k8s.io"
_EXEMPT = frozenset((
    "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
    "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
))  # fmt: skip


def is_exempt(attributes: AdmissionAttributes) -> bool:
    """Return whether a request writes a configuration of admission, which nothing reviews: it could not be repaired."""
    type_ = attributes.requested.type
    return type_.group == _GROUP and type_.plural in _EXEMPT


def matched_kind(
    rules: Sequence[Manifest], attributes: AdmissionAttributes, served: ServedIndex, *, is_exact: bool
) -> Kind | None:
    """Return the kind in the version that a rule matches, None where no rule matches the request.

    Args:
        rules: The rules.
        attributes: The request.
        served: The kinds that are served.
        is_exact: Whether only the version of the request matches; otherwise all versions of its objects do.
    """
    requested = attributes.requested
    if any(_matches(rule, attributes, requested) for rule in rules):
        return requested
    if is_exact:
        return None
    others = tuple(equivalents(attributes, served))
    return next((kind for rule in rules for kind in others if _matches(rule, attributes, kind)), None)


def equivalents(attributes: AdmissionAttributes, served: ServedIndex) -> Iterator[Kind]:
    """Return the other kinds that show the same objects, in the order of discovery."""
    requested, part = attributes.requested, attributes.subresource
    for kind in served.kinds:
        shows_them = kind.stored_name == requested.stored_name and kind.type != requested.type
        if shows_them and (not part or part in kind.subresources):
            yield kind


def _matches(rule: Manifest, attributes: AdmissionAttributes, kind: Kind) -> bool:
    return (
        _has(rule.get("operations"), attributes.operation)
        and _has(rule.get("apiGroups"), kind.type.group)
        and _has(rule.get("apiVersions"), kind.type.version)
        and any(_names(resource, kind, attributes.subresource) for resource in rule.get("resources") or ())
        and _in_scope(rule.get("scope") or "*", attributes)
    )


def _has(values: Sequence[str] | None, value: str) -> bool:
    return values is not None and ("*" in values or value in values)


def _names(text: str, kind: Kind, subresource: str) -> bool:
    resource, _, part = text.partition("/")
    return resource in ("*", kind.type.plural) and part in ("*", subresource)


def _in_scope(scope: str, attributes: AdmissionAttributes) -> bool:
    is_in_namespace = attributes.requested.type.namespaced and bool(attributes.namespace)
    return scope == "*" or is_in_namespace == (scope == "Namespaced")


def selects_namespace(selector: Manifest, attributes: AdmissionAttributes, obj: Manifest | None, at: Storage) -> bool:
    """Return whether a selector selects the namespace of a request; cluster-scoped objects are always selected.

    Args:
        selector: The selector.
        attributes: The request.
        obj: The object; a Namespace that is written is selected by its new labels.
        at: Where the namespaces are.

    Raises:
        StatusError: 404, there is no such namespace.
    """
    is_namespace = attributes.requested.type.plural == NAMESPACES.type.plural and not attributes.requested.type.group
    if _is_everything(selector) or (not attributes.namespace and not is_namespace):
        return True
    if is_namespace and not attributes.subresource and attributes.operation in (CREATE, UPDATE):
        return selects(selector, _labels(obj) or {})
    found = at.get(NAMESPACES, "", attributes.namespace)
    if found is None:
        raise not_found(NAMESPACES.type, attributes.namespace)
    return selects(selector, found.metadata.labels)


def selects_object(selector: Manifest, obj: Manifest | None, old: Manifest | None) -> bool:
    """Return whether a selector selects the labels of the new or the old object."""
    if _is_everything(selector):
        return True
    return any(labels is not None and selects(selector, labels) for labels in (_labels(obj), _labels(old)))


def _is_everything(selector: Manifest) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def _labels(obj: Manifest | None) -> Mapping[str, str] | None:
    """Return the labels of an object, None for an object without metadata, such as the options of a connection."""
    metadata = (obj or {}).get("metadata")
    return (metadata.get("labels") or {}) if isinstance(metadata, dict) else None


def group_version_kind(kind: Kind, subresource: str) -> tuple[str, str, str]:
    """Return group, version and kind of the objects that a request sends: those of a subresource may be others."""
    own = kind.type.group, kind.type.version, kind.type.kind
    found = SUBRESOURCE_KINDS.get(subresource)
    if found is None:
        return own
    return found if found[1] else (own[0], own[1], found[2])
