"""Builders of objects, as a server would return them.

```python
build.pod("web-0", phase="Running", ready=True, owner=site)
build.job("pi", completions=3, parallelism=1)
build.config_map("colors", {"sky": "blue"}, labels={"app": "web"})
```

Keywords that name no field of the spec are fields of the metadata.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from kcr.api.batch import Job, JobSpec
from kcr.api.core import (
    ConfigMap,
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
)
from kcr.api.meta import Condition, ObjectMeta, Resource, controller_reference
from kcr.arguments import check_fields, checked, refuse

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
CONTAINER = "main"
Phase = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(Pending|Running|Succeeded|Failed|Unknown)\Z", description="Pending, Running, Succeeded or Failed"
    ),
]


@checked
def metadata(name: str, *, owner: Resource | None = None, namespace: str = "default", **fields: Any) -> ObjectMeta:
    """Return the metadata of a stored object: its uid is `uid-` and its name, its version 1.

    Args:
        name: The name.
        owner: The object that controls it.
        namespace: Empty for kinds without.
        fields: Any others of `ObjectMeta`.
    """
    given: dict[str, Any] = {"uid": f"uid-{name}", "resource_version": "1", "creation_timestamp": CREATED} | fields
    if owner is not None:
        given["owner_references"] = (controller_reference(owner),)
    if unknown := given.keys() - {*ObjectMeta.__struct_fields__}:
        refuse(f"build: no field is called {min(unknown)!r}: use those of the metadata, such as labels")
    made = ObjectMeta(name=name, namespace=namespace, **given)
    check_fields("build", made)
    return made


@checked
def config_map(name: str, data: Mapping[str, str] | None = None, **fields: Any) -> ConfigMap:
    """Return a ConfigMap; `fields` are those of `metadata`."""
    return ConfigMap(metadata=metadata(name, **fields), data=data or {})


@checked
def job(name: str = "pi", **fields: Any) -> Job:
    """Return a Job of one pod, unless fields of its spec say otherwise; the others are those of `metadata`."""
    spec = {name: fields.pop(name) for name in JobSpec.__struct_fields__ if name in fields}
    containers = [{"name": CONTAINER, "image": "busybox"}]
    template = {"metadata": {"labels": {"app": name}}, "spec": {"restartPolicy": "Never", "containers": containers}}
    given: dict[str, Any] = {"parallelism": 1, "completions": 1, "backoff_limit": 6} | spec
    given.setdefault("template", msgspec.Raw(msgspec.json.encode(template)))
    check_fields("build.job", made := JobSpec(**given))
    return Job(metadata=metadata(name, **fields), spec=made)


@checked
def pod(
    name: str = "pod", phase: Phase = "Pending", *, ready: bool = False, exit_code: int | None = None, **fields: Any
) -> Pod:
    """Return a pod of one container.

    Args:
        name: The name.
        phase: `Pending`, `Running`, `Succeeded` or `Failed`.
        ready: Whether it is ready.
        exit_code: How its container ended; by default as the phase says.
        fields: Those of `metadata`, and `node`: where it runs; by default nowhere while it is pending.
    """
    node = fields.pop("node", "" if phase == "Pending" else "node-1")
    spec = PodSpec(node_name=node, restart_policy="Never", containers=(Container(name=CONTAINER, image="busybox"),))
    check_fields("build.pod", spec)
    state = _state(phase, exit_code)
    conditions = (Condition(type="Ready", status="True", last_transition_time=CREATED),) if ready else ()
    return Pod(
        metadata=metadata(name, **fields),
        spec=spec,
        status=PodStatus(
            phase=phase,
            conditions=conditions,
            container_statuses=() if state is None else (ContainerStatus(name=CONTAINER, ready=ready, state=state),),
        ),
    )


def _state(phase: str, exit_code: int | None) -> ContainerState | None:
    if phase == "Running":
        return ContainerState(running=ContainerStateRunning(started_at=CREATED))
    if phase in ("Succeeded", "Failed"):
        code = exit_code if exit_code is not None else int(phase == "Failed")
        return ContainerState(terminated=ContainerStateTerminated(exit_code=code, finished_at=CREATED))
    return None
