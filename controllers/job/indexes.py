"""How the controller finds pods in the store."""

from collections.abc import Iterable

from kcr.api.core import Pod
from kcr.api.meta import controller_of
from kcr.api.pods import is_terminal
from kcr.controllers.job.pods import CONTROLLER_UID, is_tracked

# Pods that still matter to their Job, by the UID of their controller: those that have not ended, those that still
# carry the tracking finalizer, and those that may have to be released. All others are in the counters already, so
# that the cost of a pass follows the pods that changed and not the size of the Job.
UNSETTLED = "job-unsettled"
# Pods that nobody controls, by namespace: a Job whose selector fits adopts them.
ORPHANS = "job-orphans"


def unsettled(pod: Pod) -> Iterable[str]:
    """Return the UID under which an unsettled pod is found, or nothing."""
    owner = controller_of(pod.metadata)
    if owner is None or owner.kind != "Job":
        return ()
    # Its Job's selector asks for this label, unless a user wrote the selector.
    is_kept = pod.metadata.labels.get(CONTROLLER_UID) == owner.uid
    return () if is_terminal(pod) and not is_tracked(pod) and is_kept else (owner.uid,)


def orphans(pod: Pod) -> Iterable[str]:
    """Return the namespace under which a pod without a controller is found, or nothing."""
    return (pod.metadata.namespace,) if controller_of(pod.metadata) is None else ()
