"""When managedFields are kept: from the first apply of an object on, by every write of it.

An object that was never applied has none and costs nothing: until then it makes no difference who owns its fields.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/{fieldmanager,skipnonapplied}.go;
kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.apply import field_manager, managed_fields
from kcr_devcluster.apiserver.apply.managed_fields import Managed, ManagerEntry
from kcr_devcluster.apiserver.apply.versions import MANAGED_FIELDS, FieldVersions
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.replay import PendingError, answer_to, remember
from kcr_devcluster.apiserver.protocol.responses import StatusError


class Tracking(NamedTuple):
    """The field manager of a write.

    Attributes:
        by: Returns the manager of the write, at the time that it is given.
        applied: The field managers that an apply has computed; None for other writes.
    """

    by: Callable[[str], ManagerEntry]
    applied: Managed | None = None

    def is_needed(self, before: Manifest, new: Manifest) -> bool:
        """Return whether managedFields are kept: by an apply, and where a version of the object has some."""
        return MANAGED_FIELDS in before["metadata"] or MANAGED_FIELDS in new["metadata"] or self.applied is not None


def track(kind: Kind, before: Manifest, new: Manifest, tracking: Tracking, now: str) -> None:
    """Set the managedFields of a version that is about to be stored.

    A client may write them, to transfer or to drop the ownership of fields, but not through a subresource. Invalid
    ones are ignored. Where a conversion webhook fails, a write that is no apply leaves them as they are.

    Args:
        kind: The kind of the object.
        before: The version before; `{"metadata": {}}` for none.
        new: The version to store, changed in place.
        tracking: Who writes it.
        now: The time, as in metadata.
    """
    versions = FieldVersions(kind)
    had, asked = before["metadata"].get(MANAGED_FIELDS), new["metadata"].pop(MANAGED_FIELDS, None)
    unchanged = same_json(new, _without_managed_fields(before))
    if tracking.applied is not None:
        managed = tracking.applied
    else:
        by = tracking.by(now)
        if not by.subresource and managed_fields.is_reset(asked):
            return
        managed = (not by.subresource and _decode(asked)) or _decode(had)
        if not managed:
            return
        if had and unchanged and _same(managed, _decode(had)):
            # Fields that a new schema has pruned, or that this version lacks, are owned until the next change.
            new["metadata"][MANAGED_FIELDS] = had
            return
        updated = _updated(versions, before, new, by, managed)
        if updated is None:
            if had:
                new["metadata"][MANAGED_FIELDS] = had
            return
        managed = updated
    managed = versions.known(managed)
    is_update = all(entry.operation == managed_fields.UPDATE for entry in managed.values())
    if tracking.applied is not None and is_update and not had:
        # No manager has applied a field so far.
        return
    if had and unchanged and _same(managed, _decode(had)):
        # Only times would differ: a write that changes nothing else changes nothing.
        new["metadata"][MANAGED_FIELDS] = had
    elif managed:
        new["metadata"][MANAGED_FIELDS] = managed_fields.encode(managed)


def _updated(
    versions: FieldVersions, before: Manifest, new: Manifest, by: ManagerEntry, managed: Managed
) -> Managed | None:
    """Return the managers after a write that is no apply; None where the webhook that converts their fields fails."""
    try:
        return field_manager.update(versions, before, new, by, managed)
    except PendingError as pending:
        question = (MANAGED_FIELDS, new["metadata"].get("uid"))
        if answer_to(question) is None:
            raise PendingError(partial(_resolve, pending, question)) from None
        return None


async def _resolve(pending: PendingError, question: Hashable) -> None:
    """Have the managers' fields converted, and remember a failure as the answer to a question."""
    try:
        await pending.resolve()
    except StatusError:
        remember({question: True})


def _decode(given: Any) -> Managed:
    try:
        return managed_fields.decode(given)
    except ValueError:
        return {}


def _same(one: Managed, other: Managed) -> bool:
    return one.keys() == other.keys() and all(
        entry._replace(time="") == other[key]._replace(time="") for key, entry in one.items()
    )


def _without_managed_fields(manifest: Manifest) -> Manifest:
    metadata = {name: value for name, value in manifest["metadata"].items() if name != MANAGED_FIELDS}
    return {**manifest, "metadata": metadata}
