"""ObjectMeta: fields that the server sets, names that it generates, validation.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go,
kubernetes/staging/src/k8s.io/apiserver/pkg/registry/rest/{meta,create,update}.go.
"""

import random
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.strategy import UndecodableError
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    forbidden,
    invalid,
    non_negative,
    rendered,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest, in_order, timestamp
from kcr_devcluster.apiserver.protocol.names import (
    NOT_STANDARD,
    check_annotations,
    check_finalizer,
    check_labels,
    qualified_name,
)
from kcr_devcluster.apiserver.protocol.responses import bad_request
from kcr_devcluster.apiserver.schema.builtin import type_shape
from kcr_devcluster.apiserver.schema.shape import TypeMismatchError
from kcr_devcluster.go_numbers import stored_numbers

_GRACE = "deletionGracePeriodSeconds"
_OF_DELETION = ("deletionTimestamp", _GRACE)
_SERVER_FIELDS = ("uid", "creationTimestamp", *_OF_DELETION, "managedFields")
# The fields that an update cannot change; other values in it are ignored.
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "generation")
# The strategies that check the metadata of an update beside the registry in another way than most, which check the
# changes once more: how often they check those, and how often the metadata as a whole.
_CHECKS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys((
        "APIService", "CSIStorageCapacity", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding",
        "ConfigMap", "ControllerRevision", "DeviceClass", "Endpoints", "Ingress", "IngressClass", "Job", "Namespace",
        "Node", "PersistentVolumeClaim", "Pod", "ResourceClaim", "ResourceClaimTemplate", "Role", "RoleBinding",
        "RuntimeClass", "Secret", "ServiceAccount", "StorageClass",
    ), (1, 1)),
    **dict.fromkeys((
        "CSINode", "EndpointSlice", "FlowSchema", "LimitRange", "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "PriorityLevelConfiguration",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    ), (0, 1)),
    **dict.fromkeys(("Event", "PodDisruptionBudget"), (0, 0)),
    "PersistentVolume": (0, 2),
}  # fmt: skip
_STATUS_CHECKS = {"CertificateSigningRequest": (1, 1), "CronJob": (0, 0), "PodDisruptionBudget": (0, 0)}
# The groups whose objects may have finalizers without a domain; so do events and custom resources.
_ANY_FINALIZER = (
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io",
    "node.k8s.io", "policy",
)  # fmt: skip
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58
# The bits of a UUID that are not random: version and variant.
_UUID_FIXED = 0xF000 << 64 | 0xC000 << 48
_UUID_VERSION_4 = 0x4000 << 64 | 0x8000 << 48


def new_uid(randomness: random.Random) -> str:
    """Return a random UUID of version 4."""
    bits = f"{randomness.getrandbits(128) & ~_UUID_FIXED | _UUID_VERSION_4:032x}"
    return f"{bits[:8]}-{bits[8:12]}-{bits[12:16]}-{bits[16:20]}-{bits[20:]}"


def generate_name(base: str, randomness: random.Random) -> str:
    """Return a name for a `generateName`: the base, cut, and five characters that spell no words."""
    draw = randomness.random
    return base[:_LONGEST_BASE] + "".join([_ALPHABET[int(draw() * len(_ALPHABET))] for _ in range(5)])


def decode_metadata(kind: Kind, given: object) -> Manifest:
    """Return metadata without empty or unknown members, `resourceVersion` excepted.

    Raises:
        StatusError: 400, a member has the wrong type.
    """
    members = dict(given) if isinstance(given, dict) else {} if given is None else given
    try:
        members = _conformed(kind, members)
    except ValueError as error:
        if isinstance(error, TypeMismatchError) and kind.custom is None:
            error.add_parent(kind.type.kind, "metadata")
        raise undecodable(kind, error) from None
    kept = in_order({"resourceVersion": "", **members})
    if isinstance(given, dict) and given.get("managedFields") == []:
        # Unlike other empty lists, it has a meaning: no manager owns the fields.
        kept["managedFields"] = []
    return kept


def _conformed(kind: Kind, members: Any) -> Any:
    conform = type_shape("meta.v1.ObjectMeta").conform
    try:
        return conform(members)
    except ValueError:
        if kind.custom is None or not isinstance(members, dict):
            raise
        # Of a custom resource a number may have a fraction of 0.
        return conform(stored_numbers(members))


def prepared(kind: Kind, given: Manifest, namespace: str) -> tuple[Manifest, list[str]]:
    """Return an object with valid metadata, kind and apiVersion, and the warnings for its client.

    Args:
        kind: Its kind.
        given: The object as it was sent.
        namespace: That of the request.

    Raises:
        StatusError: 400, a member has the wrong type, or the namespace is not that of the request.
    """
    metadata = decode_metadata(kind, given.get("metadata"))
    said = metadata.get("namespace", "")
    if not kind.type.namespaced:
        metadata.pop("namespace", None)
    elif said != namespace:
        if said:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = namespace
    obj = {**given, "kind": kind.type.kind, "apiVersion": kind.type.api_version, "metadata": metadata}
    return obj, _without_duplicate_owners(metadata)


def undecodable(kind: Kind, why: ValueError | str) -> UndecodableError:
    """400: the body is JSON but no object of the kind."""
    return UndecodableError(kind.type.kind, kind.type.version, why)


def _without_duplicate_owners(metadata: Manifest) -> list[str]:
    """Keep the first of equal references to owners, and return the texts that warn of more."""
    kept: list[Manifest] = []
    repeated: dict[str, None] = {}
    for reference in metadata.get("ownerReferences", []):
        if reference in kept:
            repeated[reference.get("uid", "")] = None
        else:
            kept.append(reference)
    if not repeated:
        return []
    metadata["ownerReferences"] = kept
    return [
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may "
        "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        + ", ".join(repeated)
    ]


def set_initial_fields(metadata: Manifest, uid: str, now: datetime) -> None:
    """Set the fields of a new object that only the server sets; it has no version yet, and no manager."""
    for name in _SERVER_FIELDS:
        metadata.pop(name, None)
    metadata["resourceVersion"] = ""
    metadata["uid"] = uid
    metadata["creationTimestamp"] = timestamp(now)


def keep_server_fields(metadata: Manifest, old: Manifest) -> None:
    """Keep the fields that no update may change.

    Those of a deletion are refused by `validate_update` where an update sets or changes them; only the moment of a
    deletion that has begun is kept whatever the update says.
    """
    for name in _KEPT:
        if name in old:
            metadata[name] = old[name]
        elif name not in _OF_DELETION:
            metadata.pop(name, None)
    if _GRACE in old:
        metadata.setdefault(_GRACE, old[_GRACE])


def validate(kind: Kind, metadata: Manifest) -> list[FieldError]:
    """Return the field errors of the metadata of a new object."""
    errors = [*_name_faults(kind, metadata), *_validate_mutable(metadata), *_finalizer_faults(kind, metadata)]
    return errors + non_negative("metadata.generation", metadata.get("generation"))


def _validate_mutable(metadata: Manifest) -> list[FieldError]:
    """Return the field errors of labels, annotations and owners."""
    errors: list[FieldError] = []
    if labels := metadata.get("labels"):
        errors += check_labels(labels, "metadata.labels")
    if annotations := metadata.get("annotations"):
        errors += check_annotations(annotations, "metadata.annotations")
    if references := metadata.get("ownerReferences"):
        errors += _owner_faults(references)
    return errors


def checks_of_update(kind: Kind, subresource: str) -> tuple[int, int]:
    """Return how often upstream checks what an update changes in the metadata, and the metadata as a whole."""
    changes, whole = (_STATUS_CHECKS if subresource else _CHECKS).get(kind.type.kind, (1, 0))
    return 1 + changes, 1 + whole


def validate_update(kind: Kind, metadata: Manifest, old: Manifest, subresource: str) -> list[FieldError]:
    """Return the field errors of changed metadata, as often as upstream finds them.

    Args:
        kind: The kind of the object.
        metadata: Its metadata.
        old: The metadata before.
        subresource: That which is written, empty for the object.
    """
    errors, changed = _validate_mutable(metadata), _change_faults(metadata, old)
    finalizers = _finalizer_faults(kind, metadata)
    if not (errors or changed or finalizers):
        return []
    changes, whole = checks_of_update(kind, subresource)
    # The names of the registry's own check; that of standard ones is the strategies'.
    named = [error for error in finalizers if error.message.endswith(NOT_STANDARD)]
    others = [error for error in finalizers if error not in named]
    return [*(errors + others) * whole, *(changed + errors) * changes, *named * (changes + whole - 2)]


def _change_faults(metadata: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of a changed deletion; a terminating object takes no new finalizers."""
    errors: list[FieldError] = []
    for name in _OF_DELETION:
        if metadata.get(name) != old.get(name):
            errors.append(invalid(f"metadata.{name}", metadata[name], IMMUTABLE))
    if "deletionTimestamp" in old:
        added = sorted(set(metadata.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            shown = ", ".join(rendered(name) for name in added)
            errors.append(
                forbidden(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{shown}}}",
                )
            )
    return errors


def _name_faults(kind: Kind, metadata: Manifest) -> list[FieldError]:
    rule = kind.name_rule
    name, base = metadata.get("name", ""), metadata.get("generateName", "")
    errors: list[FieldError] = []
    if base:
        # A base usually ends with a dash; with the random suffix the name is valid.
        masked = base[:-2] + "a" if len(base) > 1 and base.endswith("-") else base
        errors += [invalid("metadata.generateName", base, reason) for reason in rule(masked)]
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    elif reasons := rule(name):
        errors += [invalid("metadata.name", name, reason) for reason in reasons]
    return errors


def _owner_faults(references: list[Manifest]) -> list[FieldError]:
    field, controller = "metadata.ownerReferences", ""
    errors: list[FieldError] = []
    for reference in references:
        version: str = reference.get("apiVersion", "")
        if version.count("/") > 1 or not version.rpartition("/")[2]:
            errors.append(invalid(f"{field}.apiVersion", version, "version must not be empty"))
        errors += [
            invalid(f"{field}.{member}", "", "must not be empty")
            for member in ("kind", "name", "uid")
            if not reference.get(member)
        ]
        if reference.get("apiVersion") == "v1" and reference.get("kind") == "Event":
            errors.append(invalid(field, reference, "/v1, Kind=Event is disallowed from being an owner"))
        if not reference.get("controller"):
            continue
        named = f"{reference.get('kind')}/{reference.get('name')}"
        if controller:
            words = "Only one reference can have Controller set to true. "
            errors.append(invalid(field, references, f'{words}Found "true" in references for {controller} and {named}'))
        controller = controller or named
    return errors


def _finalizer_faults(kind: Kind, metadata: Manifest) -> list[FieldError]:
    finalizers, field = metadata.get("finalizers") or (), "metadata.finalizers"
    errors = [invalid(field, name, reason) for name in finalizers for reason in qualified_name(name)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        words = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(field, finalizers, words))
    if kind.custom is not None or kind.type.group in _ANY_FINALIZER or kind.type.kind == "Event":
        return errors
    return errors + [
        error for position, name in enumerate(finalizers) for error in check_finalizer(name, f"{field}[{position}]")
    ]
