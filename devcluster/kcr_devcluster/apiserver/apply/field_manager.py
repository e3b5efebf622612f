"""The field manager: applies configurations, and keeps track of which manager owns which fields of an object.

A manager owns the fields of the configuration that it applies. A field that differs from the live object and that
another manager owns is a conflict; a forced apply takes it over. A field that the manager applied before, that its
configuration leaves out now, and that no other manager owns, is removed. Every other write takes over the fields that
it changes.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/{fieldmanager,structuredmerge,
stripmeta,managedfieldsupdater,skipnonapplied,lastappliedmanager,lastappliedupdater}.go;
sigs.k8s.io/structured-merge-diff, merge/{update,conflict}.go.
"""

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

import msgspec

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.apply.fieldpath import (
    LEAF,
    FieldSet,
    difference,
    field_element,
    intersection,
    paths,
    union,
)
from kcr_devcluster.apiserver.apply.managed_fields import UPDATE, Managed, ManagerEntry, cap
from kcr_devcluster.apiserver.apply.merge import merge
from kcr_devcluster.apiserver.apply.typed import Comparison, all_paths, compare, faults, field_set, is_atomic
from kcr_devcluster.apiserver.apply.versions import FieldVersions
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.schema.shape import Field, Shape

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# The manager that kubectl is by default: the only one for which the annotation of its client-side apply counts.
_KUBECTL = "kubectl"
_BEFORE_FIRST_APPLY, _CLIENT_SIDE_APPLY = "before-first-apply", "kubectl-client-side-apply"
_METADATA = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion",
)  # fmt: skip
# Fields that no manager owns.
_SYSTEM_FIELDS: FieldSet = {
    field_element("apiVersion"): LEAF,
    field_element("kind"): LEAF,
    field_element("metadata"): {**LEAF, **{field_element(name): LEAF for name in _METADATA}},
}


class ApplyResult(NamedTuple):
    """The object after an apply, and its field managers."""

    manifest: Manifest
    managed: Managed


class Configuration(NamedTuple):
    """The configuration that a manager applies.

    Attributes:
        manifest: The fields that it has an opinion on.
        by: The manager; its fields are ignored.
        force: Whether it takes over fields that others own.
        resets: Dotted paths of the fields that its write leaves as they are, such as `status`: it owns none of them.
    """

    manifest: Manifest
    by: ManagerEntry
    force: bool = False
    resets: tuple[str, ...] = ()


def apply(
    versions: FieldVersions, live: Manifest, config: Configuration, managed: Managed
) -> Generator[None, None, ApplyResult]:
    """Compute the live object with a configuration applied, and return it; pauses between the steps.

    With thousands of items each step takes a while, and other requests can be served between them.

    Args:
        versions: The fields of the object.
        live: The object as it is, `{}` for none.
        config: The applied fields, and their manager.
        managed: Who owns the fields of the live object.

    Raises:
        StatusError: 409, it conflicts with other managers; 500, it is no value of its kind.
    """
    shape, field = versions.shape, versions.field
    check(shape, config.manifest)
    yield
    owned = _without(field_set(field, config.manifest), config.resets)
    yield
    last, mine = managed.get(config.by.key), config.by._replace(fields=owned)
    others = {key: entry for key, entry in versions.known(managed).items() if key != mine.key}
    manifest: Manifest = merge(field, live, config.manifest)
    yield
    if last is not None:
        manifest = versions.pruned(manifest, last, {**others, mine.key: mine})
        yield
    canonical = _canonical(shape, manifest)
    yield
    # What is stored has no nulls, empty maps and lists, but they are changes, or none.
    unset, shown = _nulls(field, config.manifest), _with_emptied(manifest, canonical)
    changes = {
        version: Comparison(_without(change.touched, config.resets), _without(change.removed, config.resets))
        for version, change in versions.changes(others, live, merge(field, shown, unset) if unset else shown).items()
    }
    yield
    conflicts = {
        key: entry._replace(fields=shared)
        for key, entry in others.items()
        if (shared := intersection(entry.fields, changes[entry.api_version].touched))
    }
    if conflicts and not config.force:
        _refuse(conflicts, _allowed(field, live, config.by))
    kept = _unchanged(others, changes)
    if same_json(live, canonical):
        # A manager that has not applied before has no time.
        mine = mine._replace(time=last.time if last else "")
    return ApplyResult(_refresh_last_applied(manifest, config), _with_entry(kept, mine))


def update(versions: FieldVersions, before: Manifest, new: Manifest, by: ManagerEntry, managed: Managed) -> Managed:
    """Return the field managers of an object after a write that is no apply: its manager owns the fields it changes.

    Args:
        versions: The fields of the object.
        before: The object before the write, `{}` for none.
        new: The object after it.
        by: The manager; its fields are ignored.
        managed: Who owned the fields before.
    """
    change, managed = compare(versions.field, before, new), versions.known(managed)
    kept = _unchanged(managed, versions.changes(managed, before, new))
    gained = difference(change.touched, _SYSTEM_FIELDS)
    if not gained:
        return kept
    previous = kept.get(by.key)
    mine = by._replace(fields=union(previous.fields, gained) if previous else gained)
    return cap(_with_entry(kept, mine))


def before_first_apply(versions: FieldVersions, live: Manifest, by: ManagerEntry, *, has_status: bool) -> Managed:
    """Return the field managers of an object before its first apply: managers of updates, with names of their own.

    What kubectl's client-side apply has set, by its annotation, is that of its manager, so that kubectl can migrate it
    without removing what others have set. Unlike upstream, where status is tracked from the start, the status is owned
    as well, as if written through `/status`.

    Args:
        versions: The fields of the object.
        live: The object.
        by: The manager of the first apply; it says the version and the time.
        has_status: Whether its kind has the subresource `status`.
    """
    status = {"status": live["status"]} if has_status and "status" in live else {}
    rest = {member: value for member, value in live.items() if member not in status}
    entry = by._replace(manager=_BEFORE_FIRST_APPLY, operation=UPDATE, subresource="")
    managed = update(versions, {}, rest, entry, {})
    by_kubectl = _client_side_applied(versions, live)
    for owner in list(managed.values()):
        left = owner._replace(fields=difference(owner.fields, by_kubectl))
        taken = owner._replace(manager=_CLIENT_SIDE_APPLY, fields=intersection(owner.fields, by_kubectl))
        managed = {one.key: one for one in (taken, left) if one.fields}
    return update(versions, {}, status, entry._replace(subresource="status"), managed)


def _client_side_applied(versions: FieldVersions, live: Manifest) -> FieldSet:
    """Return the fields that kubectl's client-side apply has set, with their defaults; none without its annotation."""
    if LAST_APPLIED not in (live.get("metadata", {}).get("annotations") or {}):
        return {}
    said = {"metadata": {"annotations": {LAST_APPLIED: ""}}}
    last = {**_decode_last_applied(live), "apiVersion": live["apiVersion"], "kind": live["kind"]}
    if isinstance(last.setdefault("metadata", {}), dict):
        last = versions.defaulted(last)
    return union(all_paths(versions.field, said), all_paths(versions.field, last))


def check(shape: Shape, config: Manifest) -> None:
    """Refuse a configuration that is no value of its kind.

    Raises:
        StatusError: 500, as upstream's.
    """
    found = list(faults(Field(shape.type), config))
    if not found:
        return
    words = found[0] if len(found) == 1 else "\n  ".join(("errors:", *found))
    raise StatusError(500, "", f"failed to create typed patch object ({_named(config)}; {_type_of(config)}): {words}")


def unconvertible(config: Manifest, why: str) -> StatusError:
    """500: the object with a configuration applied cannot be converted to its Go type."""
    if why.startswith("illegal base64"):
        why = f"error decoding from json: {why}"
    kind = _type_of(config)
    words = f"to proper version: unable to convert unstructured object to {kind}: {why}"
    return StatusError(500, "", f"failed to convert new object ({_named(config)}; {kind}) {words}")


def _without(fields: FieldSet, resets: tuple[str, ...]) -> FieldSet:
    """Return a set without some fields, given as dotted paths, and without all that is below them."""
    for path in resets:
        name, _, rest = path.partition(".")
        element = field_element(name)
        inner = _without(fields.get(element, {}), (rest,)) if rest else {}
        fields = {**{one: fields[one] for one in fields if one != element}, **({element: inner} if inner else {})}
    return fields


def _named(config: Manifest) -> str:
    given = config.get("metadata")
    names = (given.get(name) if isinstance(given, dict) else None for name in ("namespace", "name"))
    return "/".join(name if isinstance(name, str) else "" for name in names)


def _type_of(config: Manifest) -> str:
    version = str(config.get("apiVersion"))
    return f"{version if '/' in version else f'/{version}'}, Kind={config.get('kind')}"


def _canonical(shape: Shape, manifest: Manifest) -> Manifest:
    """Return an object as it will be stored: unlike upstream, `1000m` is no change where `1` is stored.

    Values that cannot be stored are refused later, after the conflicts.
    """
    try:
        # Conforming changes its argument.
        conformed: Manifest = shape.conform(msgspec.json.decode(msgspec.json.encode(manifest)))
    except ValueError:
        return manifest
    return conformed


def _with_emptied(manifest: Manifest, stored: Manifest) -> Manifest:
    """Return an object as it is stored, with its empty maps and lists: they are owned."""
    found = dict(stored)
    for name, value in manifest.items():
        if value in ({}, []):
            found.setdefault(name, value)
        elif isinstance(value, dict) and isinstance(stored.get(name), dict):
            found[name] = _with_emptied(value, stored[name])
    return found


def _nulls(field: Field, config: Manifest) -> Manifest:
    """Return the members of an object that are null and owned as a whole; those within lists are left out."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        inner = field.type.field(name)
        if inner is None:
            continue
        of = inner.type
        is_whole = is_atomic(inner, of.zero()) if of.items is not None or of.shape is not None else True
        if value is None and is_whole:
            found[name] = None
        elif isinstance(value, dict) and not is_whole and (nulls := _nulls(inner, value)):
            found[name] = nulls
    return found


def _unchanged(managed: Managed, changes: Mapping[str, Comparison]) -> dict[Any, ManagerEntry]:
    """Return the managers without the fields that have changed, in their own versions."""
    changed = {version: union(change.touched, change.removed) for version, change in changes.items()}
    kept = {
        key: entry._replace(fields=difference(entry.fields, changed[entry.api_version]))
        for key, entry in managed.items()
    }
    return {key: entry for key, entry in kept.items() if entry.fields}


def _with_entry(managed: Managed, entry: ManagerEntry) -> Managed:
    fields = difference(entry.fields, _SYSTEM_FIELDS)
    return {**managed, entry.key: entry._replace(fields=fields)} if fields else managed


def _refuse(conflicts: Managed, allowed: FieldSet) -> None:
    """Refuse an apply that conflicts with other managers in more fields than are allowed.

    Raises:
        StatusError: 409.
    """
    found = [
        (str(entry), path)
        for _, entry in sorted(conflicts.items())
        for path in paths(difference(entry.fields, allowed))
    ]
    if not found:
        return
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in found
    ]
    if len(found) == 1:
        words = f"1 conflict: conflict with {found[0][0]}: {found[0][1]}"
    else:
        lines: list[str] = []
        for manager in dict.fromkeys(manager for manager, _ in found):
            lines += (f"conflicts with {manager}:", *(f"- {path}" for name, path in found if name == manager))
        words = f"{len(found)} conflicts: " + "\n".join(lines)
    raise StatusError(409, "Conflict", f"Apply failed with {words}", details={"causes": causes})


def _allowed(field: Field, live: Manifest, by: ManagerEntry) -> FieldSet:
    """Return the fields that kubectl may take over: those that its client-side apply has set and that are unchanged."""
    if by.manager != _KUBECTL:
        return {}
    last = _decode_last_applied(live)
    if last.get("apiVersion") != live.get("apiVersion"):
        return {}
    change = compare(field, last, live)
    return difference(difference(field_set(field, last), change.touched), change.removed)


def _decode_last_applied(live: Manifest) -> Manifest:
    text = (live.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED) or "{}"
    try:
        last = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return last if isinstance(last, dict) else {}


def _refresh_last_applied(manifest: Manifest, config: Configuration) -> Manifest:
    """Return the object with the annotation of client-side apply as kubectl would write it now, where there is one."""
    metadata = manifest.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if config.by.manager != _KUBECTL or not annotations.get(LAST_APPLIED):
        return manifest
    given = config.manifest.get("metadata") or {}
    said = {name: value for name, value in (given.get("annotations") or {}).items() if name != LAST_APPLIED}
    given = {**given, "annotations": said} if said else {name: given[name] for name in given if name != "annotations"}
    text = msgspec.json.Encoder(order="sorted").encode({**config.manifest, "metadata": given}).decode() + "\n"
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}
