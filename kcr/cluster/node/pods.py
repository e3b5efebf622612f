"""Pods as a node reads them: what to run, how to end it, and the status the node writes.

`kcr.api.core.Pod` models what controllers read. Everything that a manifest may leave empty (`args:` and no
value) accepts null here: one careless pod must not hide the others.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import field

from kcr.api.core import ContainerStateRunning, ContainerStateWaiting
from kcr.api.meta import Condition, Object, Resource

INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
DEFAULT_GRACE_SECONDS = 30


class KeySelector(Object):
    """One key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool | None = None


class FieldSelector(Object):
    """A field of the pod itself."""

    field_path: str = ""


class EnvVarSource(Object):
    """Where the value of a variable comes from; one of them is set."""

    field_ref: FieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None


class EnvVar(Object):
    """One variable of a container."""

    name: str = ""
    value: str | None = None
    value_from: EnvVarSource | None = None


class EnvSource(Object):
    """Names a ConfigMap or Secret whose every key becomes a variable."""

    name: str = ""
    optional: bool | None = None


class EnvFrom(Object):
    """Variables taken over in bulk."""

    prefix: str | None = None
    config_map_ref: EnvSource | None = None
    secret_ref: EnvSource | None = None


class Container(Object):
    """A container to run. `restart_policy` Always on an init container makes it a sidecar."""

    name: str = ""
    image: str | None = None
    image_pull_policy: str | None = None
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    working_dir: str | None = None
    env: tuple[EnvVar, ...] | None = None
    env_from: tuple[EnvFrom, ...] | None = None
    restart_policy: str | None = None
    termination_message_policy: str | None = None


class RunnableSpec(Object):
    """What a node needs to know to run a pod."""

    node_name: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: tuple[Mapping[str, str], ...] | None = None
    node_selector: Mapping[str, str] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    init_containers: tuple[Container, ...] | None = None
    containers: tuple[Container, ...] | None = None
    hostname: str | None = None
    service_account_name: str | None = None


class Terminated(Object):
    """How one run of a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = field(default="", name="containerID")


class ContainerState(Object):
    """One of the three holds."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: Terminated | None = None


class ContainerStatus(Object):
    """What the node reports of a container. Clients insist on the first five fields, empty or not."""

    name: str = field(default_factory=str)
    image: str = field(default_factory=str)
    image_id: str = field(default_factory=str, name="imageID")
    ready: bool = False
    restart_count: int = 0
    started: bool | None = None
    container_id: str = field(default="", name="containerID")
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class Address(Object):
    """One address of a pod or of its node."""

    ip: str = ""


class RunnableStatus(Object):
    """The status of a pod: what the node writes of it, and finds again after a restart of its own."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    host_ip: str = field(default="", name="hostIP")
    host_ips: tuple[Address, ...] = field(default=(), name="hostIPs")
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[Address, ...] = field(default=(), name="podIPs")
    start_time: datetime | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class RunnablePod(Resource, api_version="v1", kind="Pod", plural="pods"):
    """A pod, as far as a node reads it."""

    spec: RunnableSpec = RunnableSpec()
    status: RunnableStatus = RunnableStatus()


def has_ended(pod: RunnablePod) -> bool:
    """Return whether the pod's phase is final."""
    return pod.status.phase in {"Succeeded", "Failed"}


def grace_seconds(pod: RunnablePod) -> int:
    """Return how long the pod's processes may take to end when asked to, by its spec."""
    grace = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_SECONDS if grace is None else grace
