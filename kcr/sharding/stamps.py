"""The slot label of created objects: it keeps an owner and its dependents in one slot."""

from contextvars import ContextVar
from typing import TypeVar

from msgspec.structs import replace

from kcr.api.meta import Resource
from kcr.api.slots import SLOT_LABEL, slot_of

R = TypeVar("R", bound=Resource)

# Whether the running manager is sharded: the tasks of the manager inherit it.
STAMPING: ContextVar[bool] = ContextVar("kcr_slot_labels", default=False)


def with_slot(obj: R, owner: Resource) -> R:
    """Return an object with the slot of its owner as a label; unchanged without sharding."""
    if not STAMPING.get():
        return obj
    labels, slot = obj.metadata.labels, str(slot_of(owner.metadata))
    if labels.get(SLOT_LABEL) == slot:
        return obj
    return replace(obj, metadata=replace(obj.metadata, labels={**labels, SLOT_LABEL: slot}))
