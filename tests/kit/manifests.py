"""Jobs and pods as plain manifests, taken through what the embedded server does with them."""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from kcr.apiserver.kinds.batch.job import JobStrategy
from kcr.apiserver.kinds.field_errors import FieldError
from kcr.apiserver.kinds.pods.strategy import PodStrategy
from kcr.apiserver.kinds.strategy import Manifest

UID = "1f1e-u"
T0 = "2026-01-01T00:00:00Z"
JOBS, PODS = JobStrategy(), PodStrategy()


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


def with_container(**container: Any) -> Manifest:
    """A Job with these fields in its container."""
    return job(pod={"containers": [{"name": "c", "image": "i", **container}]})


def true(*types: str, status: str = "True") -> list[Manifest]:
    """Conditions that hold."""
    return [{"type": kind, "status": status} for kind in types]


def status(*conditions: str, start: str | None = T0, end: str | None = None, **more: Any) -> Manifest:
    """A status that started at T0 and has these conditions True."""
    return {"conditions": true(*conditions), "startTime": start, "completionTime": end, **more}


def prepared(manifest: Manifest) -> Manifest:
    """The Job that a create makes of a manifest, before validation."""
    made = deepcopy(manifest)
    JOBS.default(made)
    JOBS.prepare_create(made)
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
    made = deepcopy(manifest)
    PODS.default(made)
    PODS.prepare_create(made)
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


def refused(manifest: Manifest) -> list[str]:
    """What a create of a Job is refused for."""
    return texts(JOBS.validate(prepared(manifest)))


def refused_update(old: Manifest, new: Manifest) -> list[str]:
    """What a change of a Job is refused for, every text once, as the message has it."""
    new = deepcopy(new)
    JOBS.default(new)
    JOBS.prepare_update(new, old)
    return list(dict.fromkeys(texts(JOBS.validate_update(new, old))))


def refused_status(old: Manifest, status: Manifest) -> list[str]:
    """What a write of a status to a stored Job is refused for."""
    new = deepcopy({**old, "status": status})
    JOBS.default(new)
    JOBS.prepare_status(new, old)
    return texts(JOBS.validate_status(new, old))
