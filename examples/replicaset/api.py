"""ReplicaSets, as far as their controller reads them: a kind declared by hand. The pod template is carried as bytes."""

import msgspec

import kcr
from kcr.api.selectors import LabelSelector


class ReplicaSetSpec(kcr.Object):
    """How many pods of which template; `replicas` None means one."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: msgspec.Raw = msgspec.Raw(b"{}")


class ReplicaSetStatus(kcr.Object):
    """What the controller has observed."""

    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[kcr.Condition, ...] = ()


class ReplicaSet(kcr.Resource, api_version="apps/v1", plural="replicasets"):
    """Keeps a number of alike pods running."""

    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()
