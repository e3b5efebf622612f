"""Validation of CustomResourceDefinitions.

Where all versions say the same of schema, subresources or columns, upstream keeps it once, beside the versions, and
so do the paths in its messages: `spec.validation.openAPIV3Schema`, not `spec.versions[0].schema.openAPIV3Schema`.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go;
pkg/apis/apiextensions/v1/conversion.go; pkg/apihelpers/helpers.go, GetAPIApprovalState.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcr_devcluster.apiserver.kinds.definitions.schema_rules import schema_errors
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_1035_label, dns_subdomain
from kcr_devcluster.apiserver.schema.extensions import Schema

APPROVAL = "api-approved.kubernetes.io"
_PROTECTED = re.compile(r"(?:.*\.)?(?:k8s|kubernetes)\.io")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SCOPES = ("Cluster", "Namespaced")
_STRATEGIES = ("None", "Webhook")
_MOST_SELECTABLE_FIELDS = 8
_LONGEST_WARNING = 256
# What versions may share.
_SHARED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def definition_errors(crd: Manifest, *, caps_names: bool) -> list[FieldError]:
    """Return the field errors of a definition with its defaults; its metadata are validated elsewhere.

    Args:
        crd: The definition.
        caps_names: Whether names have a length in the estimate of the rules' costs.
    """
    spec, name = crd.get("spec") or {}, crd["metadata"].get("name", "")
    versions: Sequence[Manifest] = spec.get("versions") or ()
    wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
    errors = []
    if name != wanted:
        errors.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    errors += _group_errors(spec)
    errors += _schema_presence(versions)
    for position, version in enumerate(versions):
        errors += _version_errors(version, f"spec.versions[{position}]")
    errors += _version_set_errors(spec.get("versions"))
    errors += _storage_version_errors(versions, (crd.get("status") or {}).get("storedVersions") or [])
    errors += _names_errors(spec.get("names") or {})
    for place, version in places(versions, "schema"):
        errors += _served_schema_errors(version, place, caps_names=caps_names)
    for place, version in places(versions, "subresources"):
        errors += _subresource_errors(version.get("subresources") or {}, place)
    for place, version in places(versions, "additionalPrinterColumns"):
        for position, column in enumerate(version.get("additionalPrinterColumns") or ()):
            errors += _column_errors(column, f"{place}[{position}]")
    for place, version in places(versions, "selectableFields"):
        errors += _selectable_errors(version, place)
    errors += _conversion_errors(spec.get("conversion") or {})
    errors += _approval_errors(crd)
    if spec.get("preserveUnknownFields"):
        words = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        errors.append(invalid("spec.preserveUnknownFields", True, words))
    return errors


def update_errors(new: Manifest, old: Manifest, *, caps_names: bool) -> list[FieldError]:
    """Return the field errors of a changed definition.

    Args:
        new: The definition.
        old: The one before.
        caps_names: Whether names have a length in the estimate of the rules' costs.
    """
    errors, after, before = definition_errors(new, caps_names=caps_names), new["spec"], old["spec"]
    fixed = [("spec.group", after.get("group"), before.get("group"))]
    names = [("plural", False), ("kind", True)]
    if _is_established(old):
        fixed.append(("spec.scope", after.get("scope"), before.get("scope")))
    for name, once_established in names:
        if not once_established or _is_established(old):
            fixed.append((f"spec.names.{name}", after["names"].get(name), before["names"].get(name)))
    errors += [invalid(path, value, IMMUTABLE) for path, value, earlier in fixed if value != earlier]
    return [*errors, *_stored_version_errors(new)]


def _is_established(crd: Manifest) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


def places(versions: Sequence[Manifest], member: str) -> list[tuple[str, Manifest]]:
    """Return where upstream validates a member: once for versions that are alike, else in each version."""
    alike = bool(versions) and all(one.get(member) and one[member] == versions[0][member] for one in versions)
    if alike:
        return [("spec.validation" if member == "schema" else f"spec.{member}", versions[0])]
    return [(f"spec.versions[{position}].{member}", one) for position, one in enumerate(versions)]


def schema_of(version: Manifest) -> Schema:
    """Return the schema of a version, empty where there is none."""
    found: Schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return found


def _group_errors(spec: Manifest) -> Iterator[FieldError]:
    group, scope = spec.get("group", ""), spec.get("scope", "")
    if not group:
        yield required("spec.group")
    elif reasons := dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(reasons))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield required("spec.scope")
    elif scope not in _SCOPES:
        yield not_supported("spec.scope", scope, _SCOPES)


def _schema_presence(versions: Sequence[Manifest]) -> Iterator[FieldError]:
    for position, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            yield required(f"spec.versions[{position}].schema.openAPIV3Schema")


def _version_errors(version: Manifest, path: str) -> Iterator[FieldError]:
    name, warning = version.get("name", ""), version.get("deprecationWarning")
    if reasons := dns_1035_label(name):
        yield invalid(f"{path}.name", name, ",".join(reasons))
    if warning is None:
        return
    why = []
    if not version.get("deprecated"):
        why.append("can only be set for deprecated versions")
    elif len(warning.encode()) > _LONGEST_WARNING:
        why.append("must be <= 256 characters long")
    elif not warning:
        why.append("must not be an empty string")
    elif not warning.isprintable():
        at = next(place for place, one in enumerate(warning) if not one.isprintable())
        words = f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
        why.append(words)
    yield from (invalid(f"{path}.deprecationWarning", warning, reason) for reason in why)


def _version_set_errors(given: Sequence[Manifest] | None) -> Iterator[FieldError]:
    versions = given or ()
    names = [version.get("name", "") for version in versions]
    shared = [member for member in _SHARED if not any("[" in where for where, _ in places(versions, member))]
    shown = given and [{name: value for name, value in one.items() if name not in shared} for one in given]
    if len(set(names)) < len(names):
        yield invalid("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    if names and names[0] and (reasons := dns_1035_label(names[0])):
        # Upstream keeps the name of the first version beside the versions.
        yield invalid("spec.version", names[0], ",".join(reasons))


def _storage_version_errors(versions: Sequence[Manifest], stored: Sequence[str]) -> Iterator[FieldError]:
    storage = [version.get("name", "") for version in versions if version.get("storage")]
    if not stored:
        yield invalid("status.storedVersions", None, "must have at least one stored version")
    elif storage and storage[-1] not in stored:
        yield invalid("status.storedVersions", stored, f"must have the storage version {storage[-1]}")


def _names_errors(names: Manifest) -> Iterator[FieldError]:
    path = "spec.names"
    yield from (required(f"{path}.{one}") for one in ("plural", "singular", "kind", "listKind") if not names.get(one))
    for member in ("plural", "singular"):
        if names.get(member) and (reasons := dns_1035_label(names[member])):
            yield invalid(f"{path}.{member}", names[member], ",".join(reasons))
    for member in ("kind", "listKind"):
        if names.get(member) and (reasons := dns_1035_label(names[member].lower())):
            words = f"may have mixed case, but should otherwise match: {','.join(reasons)}"
            yield invalid(f"{path}.{member}", names[member], words)
    for member in ("shortNames", "categories"):
        for position, name in enumerate(names.get(member) or ()):
            if reasons := dns_1035_label(name):
                yield invalid(f"{path}.{member}[{position}]", name, ",".join(reasons))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")


def _served_schema_errors(version: Manifest, place: str, *, caps_names: bool) -> list[FieldError]:
    schema = schema_of(version)
    has_status = (version.get("subresources") or {}).get("status") is not None
    is_given = (version.get("schema") or {}).get("openAPIV3Schema") is not None
    path = f"{place}.openAPIV3Schema"
    return schema_errors(schema, path, has_status=has_status, caps_names=caps_names) if is_given else []


def _subresource_errors(subresources: Manifest, path: str) -> Iterator[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return
    for member, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        if not scale.get(member):
            yield required(f"{path}.scale.{member}")
        else:
            yield from _path_errors(f"{path}.scale.{member}", scale[member], (root,), f"under {root[:-1]}")
    if scale.get("labelSelectorPath"):
        where = f"{path}.scale.labelSelectorPath"
        yield from _path_errors(
            where, scale["labelSelectorPath"], (".spec.", ".status."), "under either .spec or .status"
        )


def _path_errors(field: str, path: str, roots: tuple[str, ...], where: str) -> Iterator[FieldError]:
    if not path.startswith("."):
        yield invalid(field, path, "must be a simple json path starting with .")
    elif not path.startswith(roots):
        yield invalid(field, path, f"should be a json path {where}")


def _column_errors(column: Manifest, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield required(f"{path}.name")
    words = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.get("type"):
        yield required(f"{path}.type", words)
    elif column["type"] not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", column["type"], words)
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", column["format"], f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not column.get("jsonPath"):
        yield required(f"{path}.JSONPath")
    elif not column["jsonPath"].startswith("."):
        yield invalid(f"{path}.JSONPath", column["jsonPath"], "must be a simple json path starting with .")


def _selectable_errors(version: Manifest, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, one in enumerate(version.get("selectableFields") or ()):
        where, json_path = f"{path}[{position}].jsonPath", one.get("jsonPath", "")
        if not json_path:
            yield required(where)
            continue
        try:
            found = _schema_at(schema_of(version), json_path)
        except ValueError as error:
            yield invalid(where, json_path, f"is an invalid path: {error}")
            continue
        if json_path.startswith(".metadata"):
            yield invalid(where, json_path, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            words = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats "
                "are allowed."
            )
            yield invalid(where, json_path, words)
        if json_path in seen:
            yield duplicate(where, json_path)
        seen.add(json_path)
    if len(seen) > _MOST_SELECTABLE_FIELDS:
        yield too_many(path, len(seen), _MOST_SELECTABLE_FIELDS)


def _schema_at(schema: Schema, path: str) -> Schema:
    if "[" in path:
        raise ValueError("array notation is not allowed")
    if not path.startswith("."):
        raise ValueError(f"expected [ or . but got: {path.partition('.')[0]}")
    for name in path[1:].split("."):
        fields = schema.get("properties") or {}
        if name not in fields:
            raise ValueError("does not refer to a valid field")
        schema = fields[name]
    return schema


def _conversion_errors(conversion: Manifest) -> Iterator[FieldError]:
    strategy, webhook, path = conversion.get("strategy") or "", conversion.get("webhook"), "spec.conversion"
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported(f"{path}.strategy", strategy, _STRATEGIES)
    if strategy != "Webhook":
        if webhook is not None:
            words = "should not be set when strategy is not set to Webhook"
            yield forbidden(f"{path}.webhookClientConfig", words)
        return
    client = (webhook or {}).get("clientConfig")
    if client is None:
        yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    elif (client.get("url") is None) == (client.get("service") is None):
        yield required(f"{path}.webhookClientConfig", "exactly one of url or service is required")
    if not (webhook or {}).get("conversionReviewVersions"):
        yield required(f"{path}.conversionReviewVersions")


def approval(crd: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the reason and message of the condition KubernetesAPIApprovalPolicyConformant; None for other groups."""
    if not _PROTECTED.fullmatch(crd["spec"].get("group", "")):
        return None
    given = (crd["metadata"].get("annotations") or {}).get(APPROVAL, "")
    if not given:
        words = f'protected groups must have approval annotation "{APPROVAL}", see '
        return "MissingAnnotation", f"{words}https://github.com/kubernetes/enhancements/pull/1111"
    if re.match(r"https?://[^/]", given):
        return "ApprovedAnnotation", f"approved in {given}"
    if given.startswith("unapproved"):
        return "UnapprovedAnnotation", f"not approved: {given!r}".replace("'", '"')
    words = f'protected groups must have approval annotation "{APPROVAL}" with either a URL or a reason starting with '
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    return "InvalidAnnotation", f'{words}"unapproved", {see}'


def _approval_errors(crd: Manifest) -> Iterator[FieldError]:
    path, found = f"metadata.annotations[{APPROVAL}]", approval(crd) if crd.get("spec") else None
    if found is None:
        return
    if found[0] == "MissingAnnotation":
        yield required(path, found[1])
    elif found[0] == "InvalidAnnotation":
        yield invalid(path, crd["metadata"]["annotations"][APPROVAL], found[1])


def _stored_version_errors(crd: Manifest) -> Iterator[FieldError]:
    """Yield the errors of removed versions in which objects may still be stored."""
    known = [version.get("name") for version in crd["spec"].get("versions") or ()]
    for position, name in enumerate((crd.get("status") or {}).get("storedVersions") or ()):
        if name not in known:
            words = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{position}]", name, words)
