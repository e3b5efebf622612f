"""The inputs of an explanation, shared by the modules of this package."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from kcr.api.core import Event, Pod
from kcr.api.explanation import Explanation
from kcr.controllers.job.decisions.plan import Plan, Snapshot
from kcr.controllers.job.decisions.pod_troubles.problems import PodContext

# So many pods, indexes and events are named; of the others the counts say enough.
NAMED = 3
# How a user gets other pods: a Job's template cannot be changed.
CHANGE = "create the Job anew with"


class Evidence(NamedTuple):
    """Facts about a Job beyond the inputs of a reconcile.

    Attributes:
        pods: All its pods, those that are counted already included.
        events: The events about it, in the order in which they were last seen.
        writers: The field managers that have written its status lately, when there are several.
        duplicate_event: The message that two controllers reported lately, each in its own event; empty for one.
        context: Warnings about those of its pods that have not started, and the nodes.
        changed: When it was last written, by any client; None when the server does not say.
        output: The last line that the pod that failed last has written; empty when that is not known.
        gang: The state of the gang of its pods; empty for none, or one that is scheduled.
        pending: Writes for it that are not observed, as its controller knows.
        is_own: Whether this is its controller's own evidence, or its controller may be silent: silence is fine then.
    """

    pods: tuple[Pod, ...] = ()
    events: tuple[Event, ...] = ()
    writers: tuple[str, ...] = ()
    duplicate_event: str = ""
    context: PodContext = PodContext(change=CHANGE)
    changed: datetime | None = None
    output: str = ""
    gang: str = ""
    pending: tuple[str, ...] = ()
    is_own: bool = False


Rule = Callable[[Snapshot, Plan, Evidence], Explanation | None]
