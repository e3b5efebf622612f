"""Pods for a kubelet: a view like `kcr.api.core.Pod`, with the fields that run containers.

Each type adds fields to core's and repeats none. Controllers keep many thousand pods and read none of these fields, so
their Pod has not got them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import field

from kcr.api.core import Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodSpec, PodStatus
from kcr.api.meta import Object

DEFAULT_GRACE_PERIOD_SECONDS = 30


class KeySelector(Object):
    """One key of a ConfigMap or Secret."""

    name: str = ""
    key: str = ""
    optional: bool | None = None


class ObjectFieldSelector(Object):
    """A field of the pod itself (downward API)."""

    field_path: str = ""


class ResourceSelector(Object):
    """A request or limit of a container (downward API), such as `limits.cpu`; of the container itself by default."""

    container_name: str = ""
    resource: str = ""
    divisor: str | int = "0"


class EnvVarSource(Object):
    """Where the value of a variable comes from; one of them is set."""

    field_ref: ObjectFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    resource_field_ref: ResourceSelector | None = None


class EnvVar(Object):
    """One variable of a container."""

    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvSource(Object):
    """Names a ConfigMap or Secret whose every key becomes a variable."""

    name: str = ""
    optional: bool | None = None


class EnvFromSource(Object):
    """Variables taken over in bulk."""

    prefix: str = ""
    config_map_ref: EnvSource | None = None
    secret_ref: EnvSource | None = None


class ContainerPort(Object):
    """A port that a container names; probes and hooks may refer to it by this name."""

    name: str = ""
    container_port: int = 0


class ExecAction(Object):
    """A command in the container; it succeeds with the exit code 0."""

    command: tuple[str, ...] = ()


class HTTPHeader(Object):
    """One header of a request."""

    name: str = ""
    value: str = ""


class HTTPGetAction(Object):
    """A GET; codes from 200 to 399 are a success."""

    path: str = ""
    port: int | str = 0
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Object):
    """A connection; that it is accepted is a success."""

    port: int | str = 0
    host: str = ""


class SleepAction(Object):
    """A pause."""

    seconds: int = 0


class ProbeHandler(Object):
    """The action of a probe or a lifecycle hook; one field is set."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None


class Probe(ProbeHandler):
    """A check of a container that runs."""

    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class LifecycleHandler(ProbeHandler):
    """The action of a lifecycle hook."""

    sleep: SleepAction | None = None


class Lifecycle(Object):
    """The actions after the start of a container, and before its end."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None


class PodReadinessGate(Object):
    """A condition that another controller writes, and without which the pod is not ready."""

    condition_type: str = ""


class ExitCodes(Object):
    """The exit codes that a restart rule is about: these (`In`), or all others (`NotIn`)."""

    operator: str = ""
    values: tuple[int, ...] = ()


class RestartRule(Object):
    """The action when a container exits with one of some codes: `Restart` or `RestartAllContainers`."""

    action: str = ""
    exit_codes: ExitCodes | None = None


class KubeletContainer(Container):
    """A container to run."""

    image_pull_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    termination_message_path: str = ""
    termination_message_policy: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    # As on the wire: few pods have any, and `kcr.api.full` has their types for the node that mounts them.
    volume_mounts: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Any] = {}
    ports: tuple[ContainerPort, ...] = ()
    lifecycle: Lifecycle | None = None
    startup_probe: Probe | None = None
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None


class HostAlias(Object):
    """A line of a hosts file."""

    ip: str = ""
    hostnames: tuple[str, ...] = ()


class KubeletPodSpec(PodSpec):
    """The fields of a pod that the scheduler and the kubelet read."""

    init_containers: tuple[KubeletContainer, ...] = ()
    containers: tuple[KubeletContainer, ...] = ()
    scheduler_name: str = ""
    scheduling_gates: tuple[Mapping[str, str], ...] = ()
    node_selector: Mapping[str, str] = {}
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    hostname: str = ""
    hostname_override: str = ""
    subdomain: str = ""
    host_aliases: tuple[HostAlias, ...] = ()
    host_network: bool = False
    service_account_name: str = ""
    volumes: tuple[Mapping[str, Any], ...] = ()
    resources: Mapping[str, Any] = {}
    readiness_gates: tuple[PodReadinessGate, ...] = ()


class KubeletTerminated(ContainerStateTerminated):
    """How one run of a container ended."""

    container_id: str = field(default="", name="containerID")


class KubeletContainerState(ContainerState):
    """One of the three holds; none means waiting."""

    terminated: KubeletTerminated | None = None


class KubeletContainerStatus(ContainerStatus):
    """The state of a container, reported by the kubelet. Clients require the images, empty or not."""

    image: str = field(default_factory=str)
    image_id: str = field(default_factory=str, name="imageID")
    started: bool | None = None
    container_id: str = field(default="", name="containerID")
    state: KubeletContainerState = KubeletContainerState()
    last_state: KubeletContainerState = KubeletContainerState()
    # As on the wire, and both None until the container has been created. Clients insist on the second, empty or not.
    allocated_resources: Mapping[str, Any] | None = None
    resources: Mapping[str, Any] | None = None


class Address(Object):
    """One address of a pod or of its node."""

    ip: str = ""


class KubeletPodStatus(PodStatus):
    """The state of a pod, which the kubelet writes, and reads after its own restart."""

    host_ip: str = field(default="", name="hostIP")
    host_ips: tuple[Address, ...] = field(default=(), name="hostIPs")
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[Address, ...] = field(default=(), name="podIPs")
    start_time: datetime | None = None
    init_container_statuses: tuple[KubeletContainerStatus, ...] = ()
    container_statuses: tuple[KubeletContainerStatus, ...] = ()


class KubeletPod(Pod):
    """A pod bound to a node, as its kubelet reads it."""

    spec: KubeletPodSpec = KubeletPodSpec()
    status: KubeletPodStatus = KubeletPodStatus()


def termination_grace_period(pod: KubeletPod) -> int:
    """Return how many seconds the pod's processes may take to end when asked to, by its spec."""
    grace = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_PERIOD_SECONDS if grace is None else grace
