"""Deletes: preconditions, grace periods, finalizers, propagation policies.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go and
pkg/registry/generic/registry/store.go, kubernetes/pkg/registry/core/{pod/strategy,namespace/storage/storage}.go.
"""

from datetime import datetime
from typing import NamedTuple

from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.kinds.catalogue import NAMESPACES
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest, clamped_seconds, timestamp
from kcr_devcluster.apiserver.protocol.responses import conflict, forbidden
from kcr_devcluster.apiserver.registry.mutation import attributes_of
from kcr_devcluster.apiserver.registry.registry import Registry
from kcr_devcluster.apiserver.storage.admission import DELETE, IN_PROCESS, RequestContext
from kcr_devcluster.apiserver.storage.records import Record

POLICIES = ("Foreground", "Background", "Orphan")
_PROPAGATION_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
_PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")
_DEFAULT_GRACE_SECONDS = 30


class DeleteOptions(NamedTuple):
    """The options of a DELETE; `""` and None where they are absent."""

    grace_seconds: int | None = None
    policy: str = ""
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    def manifest(self) -> Manifest:
        """Return the options as admission reviews show them."""
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        members = {
            "gracePeriodSeconds": self.grace_seconds,
            "preconditions": {name: value for name, value in preconditions.items() if value} or None,
            "propagationPolicy": self.policy or None,
            "dryRun": ["All"] if self.dry_run else None,
        }
        given = {name: value for name, value in members.items() if value is not None}
        return {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **given}


class DeleteResult(NamedTuple):
    """The object after a DELETE, and whether it was removed."""

    record: Record
    gone: bool


def delete(
    registry: Registry, record: Record, options: DeleteOptions, context: RequestContext = IN_PROCESS
) -> DeleteResult:
    """Remove an object, or mark it as terminating where it has finalizers or a grace period.

    Args:
        registry: The objects.
        record: The object, in its newest version.
        options: How to delete it.
        context: The request.

    Raises:
        StatusError: 409, the preconditions do not hold; 403, the namespace is protected.
    """
    kind = record.kind
    check_preconditions(record, options)
    if kind is NAMESPACES and record.metadata.name in _PROTECTED_NAMESPACES:
        raise forbidden(kind.type, record.metadata.name, "this namespace may not be deleted")
    before = record.manifest()
    new: Manifest = {**before, "metadata": dict(before["metadata"])}
    _set_propagation_finalizers(kind, new["metadata"], options.policy)
    if "deletionTimestamp" not in new["metadata"]:
        kind.strategy.prepare_delete(new)
    now = registry.now()
    if kind.strategy.graceful_deletion:
        held = _begin_grace_period(new, options.grace_seconds, now)
    else:
        held = bool(new["metadata"].get("finalizers")) or (kind is NAMESPACES and _has_spec_finalizers(new))
        if held:
            _mark_terminating(kind, new, now)
    # A pod that is terminating, and stays so, was reviewed when that began; so was a namespace that is being emptied.
    is_reviewed_once = kind.strategy.graceful_deletion or (kind is NAMESPACES and _has_spec_finalizers(new))
    reviews = context.reviews
    if reviews is not None and not (is_reviewed_once and held and new == before):
        if kind is NAMESPACES and not options.uid:
            # Upstream deletes this one, and no other of its name.
            context = context._replace(options=options._replace(uid=record.metadata.uid).manifest())
        attributes = attributes_of(DELETE, kind, before["metadata"], "", context)
        reviewed = attributes._replace(name="") if context.is_collection else attributes
        reviews.review_delete(reviewed, before)
    if held:
        return DeleteResult(registry.store(record, new, before, dry_run=options.dry_run), gone=False)
    if options.dry_run:
        return DeleteResult(registry.storage.build_record(kind, new, record.revision), gone=True)
    if kind.strategy.graceful_deletion and new != before:
        # Watchers see the mark before the end.
        record = registry.storage.put(kind, new, record)
    return DeleteResult(registry.storage.remove(record), gone=True)


def check_preconditions(record: Record, options: DeleteOptions) -> None:
    """Refuse an object that does not satisfy the preconditions.

    Raises:
        StatusError: 409.
    """
    stored = record.metadata
    # Here, and only here, upstream names the Kind where the resource would stand.
    named = ResourceType(record.kind.type.group, "", "", record.kind.type.kind)
    if options.uid is not None and options.uid != stored.uid:
        raise conflict(
            named,
            stored.name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({stored.uid}). "
            "The object might have been deleted and then recreated",
        )
    if options.resource_version is not None and options.resource_version != stored.resource_version:
        raise conflict(
            named,
            stored.name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion "
            f"in record ({stored.resource_version}). The object might have been modified",
        )


def _set_propagation_finalizers(kind: Kind, metadata: Manifest, policy: str) -> None:
    """Set the finalizers of a propagation policy, which the garbage collector acts on.

    Source: deletionFinalizersForGarbageCollection in store.go.
    """
    if not kind.garbage_collected:
        return
    present = metadata.get("finalizers", [])
    kept = [name for name in present if name not in _PROPAGATION_FINALIZERS.values()]
    if not policy:
        if len(kept) != len(present):
            return
        policy = kind.strategy.default_propagation
    if policy in _PROPAGATION_FINALIZERS:
        kept.append(_PROPAGATION_FINALIZERS[policy])
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)


def _mark_terminating(kind: Kind, obj: Manifest, now: datetime) -> None:
    """Mark an object with finalizers as terminating."""
    metadata = obj["metadata"]
    if kind is NAMESPACES:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    if "deletionTimestamp" in metadata:
        return
    metadata["deletionTimestamp"] = timestamp(now)
    if kind is not NAMESPACES:
        metadata["deletionGracePeriodSeconds"] = 0
    if metadata.get("generation"):
        metadata["generation"] += 1


def _has_spec_finalizers(obj: Manifest) -> bool:
    return bool((obj.get("spec") or {}).get("finalizers"))


def _begin_grace_period(obj: Manifest, asked_seconds: int | None, now: datetime) -> bool:
    """Mark a pod as terminating; return whether it is kept for now.

    A pod that never ran or has ended needs no grace. A second DELETE can shorten the period, nothing else.
    """
    metadata = obj["metadata"]
    if asked_seconds is not None and asked_seconds < 0:
        asked_seconds = 1
    if "deletionTimestamp" in metadata:
        _shorten(metadata, asked_seconds, now)
    else:
        period = _grace_seconds(obj, asked_seconds)
        metadata["deletionTimestamp"] = timestamp(now + clamped_seconds(period))
        metadata["deletionGracePeriodSeconds"] = period
        if metadata.get("generation"):
            metadata["generation"] += 1
    return bool(metadata["deletionGracePeriodSeconds"] or metadata.get("finalizers"))


def _grace_seconds(obj: Manifest, requested: int | None) -> int:
    spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    if requested is not None:
        return requested
    period: int = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS)
    return period if period >= 0 else 1


def _shorten(metadata: Manifest, period: int | None, now: datetime) -> None:
    pending = metadata.get("deletionGracePeriodSeconds", 0)
    if period is None or period >= pending:
        return
    marked = datetime.fromisoformat(metadata["deletionTimestamp"]) - clamped_seconds(pending)
    due = marked + clamped_seconds(period)
    if due < now:
        # Overdue: the kubelet gets a second to stop the containers.
        due, period = now, min(period, 1)
    metadata["deletionTimestamp"] = timestamp(due)
    metadata["deletionGracePeriodSeconds"] = period
