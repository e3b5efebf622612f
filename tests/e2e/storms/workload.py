"""Jobs of many sorts, how each ends, and what its pods write down themselves."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from kcr.api.batch import Job

# A restart of the cluster loses pods, and a Job that is to complete must bear any number of that.
PATIENT = {"backoffLimit": 1_000_000}
# The exit code of a container that ended with the process of its cluster.
LOST = 137
# A lost pod is no failure of a Job that is to fail after so many.
LOSSES_IGNORED = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [LOST]}}
FATAL = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}


class Sort(NamedTuple):
    """One sort of Job.

    Attributes:
        script: What the pods run. `say` appends a line to the record; `nap` takes a while.
        spec: The Job's spec without its template.
        ending: Type and reason of the terminal condition.
        status: Fields of the status at the end.
        restart_policy: That of the pods.
    """

    script: str
    spec: Mapping[str, Any]
    ending: tuple[str, str]
    status: Mapping[str, Any]
    restart_policy: str = "Never"


COMPLETE = ("Complete", "CompletionsReached")
GOOD = "say began; nap; say good; exit 0"
BAD = "say began; nap; say bad; exit 1"
SORTS = {
    "parallel": Sort(GOOD, {"parallelism": 3, "completions": 6, **PATIENT}, COMPLETE, {"succeeded": 6}),
    "indexed": Sort(
        GOOD, {"parallelism": 2, "completions": 5, "completionMode": "Indexed", **PATIENT}, COMPLETE,
        {"succeeded": 5, "completed_indexes": "0-4", "failed_indexes": None},
    ),
    # Names of pods end in a random letter or digit: about one pod in five fails.
    "flaky": Sort(
        f"case $POD in *[bcdf24]) {BAD};; esac; {GOOD}", {"parallelism": 2, "completions": 4, **PATIENT}, COMPLETE,
        {"succeeded": 4},
    ),
    "failing": Sort(
        BAD, {"backoffLimit": 2, "podFailurePolicy": {"rules": [LOSSES_IGNORED]}}, ("Failed", "BackoffLimitExceeded"),
        {"succeeded": 0, "failed": 3},
    ),
    "fatal": Sort(
        "say began; nap; say bad; exit 42", {"podFailurePolicy": {"rules": [FATAL, LOSSES_IGNORED]}, **PATIENT},
        ("Failed", "PodFailurePolicy"), {"succeeded": 0, "failed": 1},
    ),
    "bad-index": Sort(
        f"case $JOB_COMPLETION_INDEX in 1) {BAD};; esac; {GOOD}",
        {
            "parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
            "podFailurePolicy": {"rules": [LOSSES_IGNORED]},
        },
        ("Failed", "FailedIndexes"),
        {"succeeded": 2, "failed": 2, "completed_indexes": "0,2", "failed_indexes": "1"},
    ),
    "restarting": Sort(
        f'[ -e "$RECORD.$POD" ] || {{ touch "$RECORD.$POD"; exit 1; }}; {GOOD}',
        {"parallelism": 2, "completions": 3, **PATIENT}, COMPLETE, {"succeeded": 3}, "OnFailure",
    ),
    "late": Sort(
        "say began; sleep 600", {"parallelism": 2, "activeDeadlineSeconds": 2, **PATIENT},
        ("Failed", "DeadlineExceeded"), {"succeeded": 0},
    ),
    "short-lived": Sort(
        GOOD, {"parallelism": 2, "completions": 3, "ttlSecondsAfterFinished": 1, **PATIENT}, COMPLETE, {"succeeded": 3}
    ),
    "resumed": Sort(
        GOOD, {"parallelism": 2, "completions": 3, "suspend": True, **PATIENT}, COMPLETE, {"succeeded": 3}
    ),
}  # fmt: skip


class PlannedJob(NamedTuple):
    """A Job that is to be created, and what is to become of it.

    Attributes:
        sort: What it is like.
        manifest: For the API server.
        record: The file that its pods write to.
    """

    sort: Sort
    manifest: Mapping[str, Any]
    record: Path

    @property
    def name(self) -> str:
        found: str = self.manifest["metadata"]["name"]
        return found

    @property
    def namespace(self) -> str:
        found: str = self.manifest["metadata"]["namespace"]
        return found

    @property
    def is_deleted(self) -> bool:
        """Whether it is deleted by its TTL."""
        return "ttlSecondsAfterFinished" in self.sort.spec

    def said(self) -> Counter[tuple[str, str]]:
        """How often each pod has said each word, by the pod's name and the word."""
        if not self.record.exists():
            return Counter()
        return Counter((pod, word) for pod, word in map(str.split, self.record.read_text().splitlines()))

    def wrongs(self, job: Job) -> Iterator[str]:
        """Say what of the last state of the Job is not as it has to be."""
        endings = [(found.type, found.reason) for found in job.status.conditions if found.status == "True"]
        if self.sort.ending not in endings:
            yield f"{endings} in place of {self.sort.ending}"
        for field, value in self.sort.status.items():
            if getattr(job.status, field) != value:
                yield f"{field} is {getattr(job.status, field)!r} and not {value!r}"
        if job.status.active or job.status.terminating:
            yield f"{job.status.active} pods are active, and {job.status.terminating} terminating, after its end"


def planned_jobs(count: int, namespaces: Callable[[int], str], records: Path, random: Random) -> list[PlannedJob]:
    """Return Jobs of all sorts in turn, with pods that take different times.

    Args:
        count: How many.
        namespaces: The namespace of each, by its number.
        records: The folder that the pods write to.
        random: Draws the times.
    """
    planned = []
    for number, (name, sort) in zip(range(count), cycle(SORTS.items()), strict=False):
        record = records / f"{name}-{number}"
        nap = f"{random.choice((0.05, 0.2, 0.5, 1.5)) * (0.5 + random.random()):.2f}"
        script = f'say() {{ echo "$POD $1" >> "$RECORD"; }}; nap() {{ sleep {nap}; }}; {sort.script}'
        container = {
            "name": "main", "image": "busybox", "command": ["sh", "-c", script],
            "env": [
                {"name": "RECORD", "value": str(record)},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
        }  # fmt: skip
        manifest = {
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": f"{name}-{number}", "namespace": namespaces(number)},
            "spec": {
                **sort.spec, "template": {"spec": {"restartPolicy": sort.restart_policy, "containers": [container]}},
            },
        }  # fmt: skip
        planned.append(PlannedJob(sort, manifest, record))
    return planned
