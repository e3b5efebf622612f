"""How the controller finds pods in the store."""

from collections.abc import Iterable

from controllers.job.pods import has_ended, is_tracked
from kcr.api.core import Pod
from kcr.api.meta import controller_of

# Pods that still matter to their Job, by the UID of their controller: those that have not ended, and those
# that still carry the tracking finalizer. All others are in the counters already, so that the cost of a pass
# follows the pods that changed and not the size of the Job.
UNSETTLED = "job-unsettled"


def unsettled(pod: Pod) -> Iterable[str]:
    """Return the UID under which an unsettled pod is found, or nothing."""
    owner = controller_of(pod.metadata)
    if owner is None or owner.kind != "Job":
        return ()
    return () if has_ended(pod) and not is_tracked(pod) else (owner.uid,)
