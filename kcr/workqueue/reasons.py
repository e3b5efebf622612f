"""Reasons of queued keys: for logs and debugging, never for decisions."""

from typing import TypeAlias

import msgspec
from msgspec.structs import replace

# How many reasons of a key are kept.
MAX_REASONS = 8


class Reason(msgspec.Struct, frozen=True, gc=False):
    """One cause why a key is queued. It is advisory: reconciling is level-triggered, and may find something else.

    ```python
    queue.add(key, reason=Reason("webhook", "push", detail="refs/heads/main"))
    ```

    Attributes:
        source: The kind of the object that changed, or who else adds keys: `reconcile`, `channel`, a web hook.
        event: The event: `initial list`, `add`, `update` or `delete` of an object; `error`, `requeue_after`.
        namespace: That of the object; empty for none.
        name: That of the object, which need not be the one of the key; empty for none.
        old_version: Its resourceVersion before an update, or before the first of several in a row.
        version: Its resourceVersion.
        detail: Anything else, such as an error.
        traceparent: The trace context in which the object was created; empty for none, and without traces.
    """

    source: str
    event: str = ""
    namespace: str = ""
    name: str = ""
    old_version: str = ""
    version: str = ""
    detail: str = ""
    traceparent: str = ""

    def __str__(self) -> str:
        """Return the reason as a line: `Pod update default/pi-0 41→42`."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        versions = f"{self.old_version}→{self.version}" if self.old_version else self.version
        head = " ".join(filter(None, (self.source, self.event, name, versions)))
        return f"{head}: {self.detail}" if self.detail else head


# Most keys have one reason, and those of an initial list share it.
Reasons: TypeAlias = Reason | tuple[Reason, ...]


def joined(known: Reasons, reason: Reason) -> Reasons:
    """Return the reasons of a key with one more; the oldest is dropped when there are too many.

    Several updates of one object in a row are one reason: a standby keeps its keys for days.
    """
    last = known if isinstance(known, Reason) else known[-1]
    if last is reason:
        return known
    earlier = as_tuple(known)
    if reason.old_version and last.old_version and _of(last) == _of(reason):
        return (*earlier[:-1], replace(last, version=reason.version))
    return (*earlier[1 - MAX_REASONS :], reason)


def _of(reason: Reason) -> tuple[str, str, str, str]:
    return reason.source, reason.event, reason.namespace, reason.name


def as_tuple(reasons: Reasons | None) -> tuple[Reason, ...]:
    """Return the reasons of a key, the oldest first."""
    if reasons is None:
        return ()
    return (reasons,) if isinstance(reasons, Reason) else reasons
