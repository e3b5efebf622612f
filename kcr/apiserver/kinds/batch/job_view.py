"""A Job as the rules on its status see it."""

from functools import cached_property

from kcr.apiserver.kinds.strategy import Manifest


class JobView:
    """A stored or new Job; what is not there is the same as zero or empty where it is upstream."""

    def __init__(self, job: Manifest) -> None:
        self.spec: Manifest = job.get("spec") or {}
        self.status: Manifest = job.get("status") or {}
        # Types may repeat; a condition is True when one of its kind is.
        self._conditions = {
            (condition.get("type"), condition.get("status")) for condition in self.status.get("conditions") or ()
        }

    def holds(self, condition: str, status: str = "True") -> bool:
        """Return whether a condition is True, or has another status that is asked for."""
        return (condition, status) in self._conditions

    @property
    def finished(self) -> bool:
        """Whether the Job has ended."""
        return self.holds("Complete") or self.holds("Failed")

    @property
    def indexed(self) -> bool:
        """Whether each completion has an index."""
        return self.spec.get("completionMode") == "Indexed"

    def count(self, name: str) -> int:
        """Return a counter of pods."""
        return self.status.get(name) or 0

    @cached_property
    def uncounted(self) -> tuple[list[str], list[str]]:
        """The uids of pods that ended and are not in the counters yet: succeeded, failed."""
        pods = self.status.get("uncountedTerminatedPods") or {}
        return pods.get("succeeded") or [], pods.get("failed") or []

    def part(self, name: str) -> object:
        """Return what "changed" compares for a part of the status."""
        match name:
            case "finished":
                return self.finished
            case "Complete" | "Failed" | "FailureTarget" | "SuccessCriteriaMet":
                return self.holds(name)
            case "active":
                return self.count("active")
            case "uncountedTerminatedPods":
                return self.uncounted
            case "completedIndexes":
                return self.status.get(name) or ""
            case _:
                return self.status.get(name)
