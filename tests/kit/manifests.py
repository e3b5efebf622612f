"""Jobs and pods as plain manifests, taken through what the embedded server does with them."""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from kcr_devcluster.apiserver.kinds.batch.cronjob import CronJobStrategy
from kcr_devcluster.apiserver.kinds.batch.job import JobStrategy
from kcr_devcluster.apiserver.kinds.pods.defaults import tolerate_eviction
from kcr_devcluster.apiserver.kinds.pods.strategy import PodStrategy
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.protocol.manifests import Manifest

UID = "1f1e-u"
T0 = "2026-01-01T00:00:00Z"
JOBS, CRON_JOBS, PODS = JobStrategy(), CronJobStrategy(), PodStrategy()


def job(name: str = "pi", *, labels: Any = None, pod: Manifest | None = None, **spec: Any) -> Manifest:
    """A Job as a user writes it: one container, never restarted, unless `pod` or the spec say otherwise."""
    template: Manifest = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    template["spec"].update(deepcopy(pod or {}))
    if labels is not None:
        template["metadata"] = {"labels": labels}
    return {"metadata": {"name": name, "namespace": "default", "uid": UID}, "spec": {"template": template, **spec}}


def pod(**spec: Any) -> Manifest:
    """A pod as a user writes it."""
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": UID},
        "spec": {"containers": [{"name": "c", "image": "busybox"}], **spec},
    }


def indexed(completions: int | None = 5, parallelism: int | None = 2, **spec: Any) -> Manifest:
    """An Indexed Job."""
    return job(**{"completionMode": "Indexed", "completions": completions, "parallelism": parallelism, **spec})


def true(*types: str, status: str = "True") -> list[Manifest]:
    """Conditions that hold."""
    return [{"type": kind, "status": status} for kind in types]


def status(*conditions: str, start: str | None = T0, end: str | None = None, **more: Any) -> Manifest:
    """A status that started at T0 and has these conditions True."""
    return {"conditions": true(*conditions), "startTime": start, "completionTime": end, **more}


def cronjob(name: str = "hello", *, pod: Manifest | None = None, job_spec: Any = None, **spec: Any) -> Manifest:
    """A CronJob as a user writes it: every minute, one container, unless the arguments say otherwise."""
    template = {"spec": job(pod=pod, **(job_spec or {}))["spec"]}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": UID},
        "spec": {"schedule": "* * * * *", "jobTemplate": template, **spec},
    }


def prepared(manifest: Manifest, strategy: Strategy = JOBS) -> Manifest:
    """The object that a create makes of a manifest, before validation."""
    made = deepcopy(manifest)
    strategy.default(made)
    strategy.prepare_create(made)
    return made


def stored(manifest: Manifest, status: Manifest | None = None) -> Manifest:
    """A Job that was created, with a status it got later."""
    made = prepared(manifest)
    assert JOBS.validate(made) == []
    JOBS.finish_create(made)
    made["status"] = deepcopy(status or {})
    JOBS.default(made)
    return made


def stored_pod(manifest: Manifest) -> Manifest:
    """A pod that was created."""
    made = prepared(manifest, PODS)
    tolerate_eviction(made)
    assert PODS.validate(made) == []
    return made


def changed(old: Manifest, **spec: Any) -> Manifest:
    """The same object with other members in its spec."""
    new = deepcopy(old)
    new["spec"].update(deepcopy(spec))
    return new


def texts(faults: Iterable[FieldError]) -> list[str]:
    """Faults as the message of a 422 lists them."""
    return [f"{fault.field}: {fault.message}" for fault in faults]


def refused(manifest: Manifest, strategy: Strategy = JOBS) -> list[str]:
    """What a create is refused for."""
    return texts(strategy.validate(prepared(manifest, strategy)))


def refused_update(old: Manifest, new: Manifest, strategy: Strategy = JOBS) -> list[str]:
    """What a change is refused for, every text once, as the message has it."""
    new = deepcopy(new)
    strategy.default(new)
    strategy.prepare_update(new, old)
    return list(dict.fromkeys(texts(strategy.validate_update(new, old))))


def refused_status(old: Manifest, status: Manifest, strategy: Strategy = JOBS) -> list[str]:
    """What a write of a status to a stored object is refused for."""
    new = deepcopy({**old, "status": status})
    strategy.default(new)
    strategy.prepare_status(new, old)
    return texts(strategy.validate_status(new, old))


def refused_pod_status(old: Manifest, **status: Any) -> list[str]:
    """What a write of a status to a stored pod is refused for."""
    return refused_status(old, status, PODS)
