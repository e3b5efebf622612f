"""Deployments as views, with what controllers read. The pod template is carried as bytes, whole.

The complete type is in `kcr.api.full`.
"""

from typing import Self

import msgspec
from msgspec.structs import replace

from kcr.api.meta import Condition, Object, ResourceView
from kcr.api.selectors import LabelSelector


class DeploymentSpec(Object):
    """How many pods of which template."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")
    paused: bool = False


class DeploymentStatus(Object):
    """How far the roll-out is."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(ResourceView, api_version="apps/v1", plural="deployments"):
    """Keeps a number of alike pods running, and replaces them when the template changes."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    def detached(self) -> Self:
        """Return the Deployment with a template of its own, so that the page it came in can be freed (ST-7)."""
        return replace(self, spec=replace(self.spec, template=self.spec.template.copy()))
