"""CronJobs as plain manifests, taken through what the embedded server does with them."""

from copy import deepcopy
from typing import Any

from kcr.apiserver.kinds.batch.cronjob import CronJobStrategy
from kcr.apiserver.kinds.strategy import Manifest
from tests.kit.manifests import UID, job, texts

CRON_JOBS = CronJobStrategy()


def cronjob(name: str = "hello", *, pod: Manifest | None = None, job_spec: Any = None, **spec: Any) -> Manifest:
    """A CronJob as a user writes it: every minute, one container, unless the arguments say otherwise."""
    template = {"spec": job(pod=pod, **(job_spec or {}))["spec"]}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": UID},
        "spec": {"schedule": "* * * * *", "jobTemplate": template, **spec},
    }


def prepared(manifest: Manifest) -> Manifest:
    """The CronJob that a create makes of a manifest, before validation."""
    made = deepcopy(manifest)
    CRON_JOBS.default(made)
    CRON_JOBS.prepare_create(made)
    return made


def refused(manifest: Manifest) -> list[str]:
    """What a create of a CronJob is refused for."""
    return texts(CRON_JOBS.validate(prepared(manifest)))


def refused_change(old: Manifest, **spec: Any) -> list[str]:
    """What a change of members in the spec of a prepared CronJob is refused for."""
    new = deepcopy(old)
    new["spec"].update(deepcopy(spec))
    CRON_JOBS.default(new)
    CRON_JOBS.prepare_update(new, old)
    return texts(CRON_JOBS.validate_update(new, old))
