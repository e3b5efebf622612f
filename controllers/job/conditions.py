"""The conditions a Job can have, and what they mean for it."""

from collections.abc import Mapping

from kcr.api.batch import COMPLETE, FAILED, Job
from kcr.api.conditions import is_true

SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
FAILURE_TARGET = "FailureTarget"
SUSPENDED = "Suspended"

# The interim condition that comes before each terminal one, while pods still have to go.
INTERIM: Mapping[str, str] = {COMPLETE: SUCCESS_CRITERIA_MET, FAILED: FAILURE_TARGET}

COMPLETIONS_REACHED = "CompletionsReached"
BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
DEADLINE_EXCEEDED = "DeadlineExceeded"
POD_FAILURE_POLICY = "PodFailurePolicy"
MAX_FAILED_INDEXES_EXCEEDED = "MaxFailedIndexesExceeded"
FAILED_INDEXES = "FailedIndexes"
SUCCESS_POLICY = "SuccessPolicy"
JOB_SUSPENDED = "JobSuspended"
JOB_RESUMED = "JobResumed"


def is_ending(job: Job) -> bool:
    """Return whether it is on record how the Job ends: its pods have been told to go."""
    return any(is_true(job.status.conditions, interim) for interim in INTERIM.values())


def is_being_deleted(job: Job) -> bool:
    """Return whether somebody has asked for the Job to go."""
    return job.metadata.deletion_timestamp is not None
