"""Deployments and ReplicaSets, whose pod templates are carried as bytes, whole.

Types with typed templates are in `kcr.api.full`.
"""

from datetime import datetime
from typing import Self

import msgspec
from msgspec.structs import replace

from kcr.api.meta import Condition, FullResource, Object, PodCondition
from kcr.api.selectors import LabelSelector


class ReplicaSetSpec(Object):
    """How many pods of which template; `replicas` None means one."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")


class ReplicaSetStatus(Object):
    """The state observed by the controller."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(FullResource, api_version="apps/v1", plural="replicasets"):
    """Keeps a number of alike pods running."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()

    def detached(self) -> Self:
        """Return the ReplicaSet with a template of its own, so that the page it came in can be freed (ST-7)."""
        return replace(self, spec=replace(self.spec, template=self.spec.template.copy()))


class RollingUpdate(Object):
    """How far a rolling update may deviate from the wanted number: pods, or a percentage such as `25%`."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DeploymentStrategy(Object):
    """How pods are replaced: `RollingUpdate`, or `Recreate` for all at once."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Object):
    """How many pods of which template, and how they are replaced when it changes."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None
    paused: bool = False


class DeploymentCondition(PodCondition):
    """One condition of a Deployment; `last_update_time` also moves while it only progresses."""

    last_update_time: datetime | None = None


class DeploymentStatus(Object):
    """How far the roll-out is."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()


class Deployment(FullResource, api_version="apps/v1", plural="deployments"):
    """Keeps a number of alike pods running, and replaces them when the template changes."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    def detached(self) -> Self:
        """Return the Deployment with a template of its own, so that the page it came in can be freed (ST-7)."""
        return replace(self, spec=replace(self.spec, template=self.spec.template.copy()))


class ScaleSpec(Object):
    """How many replicas are wanted."""

    replicas: int = 0


class ScaleStatus(Object):
    """How many replicas there are; `selector` is the text that finds their pods."""

    replicas: int = 0
    selector: str = ""


class Scale(FullResource, api_version="autoscaling/v1", plural="scales"):
    """The scale of an object, under that object's name; the server has no list of them."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
