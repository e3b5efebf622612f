# Made by `python -m tools.api_types`: do not edit.
"""Types of core/v1, whole."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from kcr.api.markers import IntOrString, Quantity
from kcr.api.meta import Condition, FullResource, MicroTime, Object, ObjectMeta
from kcr.api.selectors import LabelSelector


class ConfigMap(FullResource, api_version="v1", plural="configmaps"):
    binary_data: Mapping[str, bytes] = {}
    data: Mapping[str, str] = {}
    immutable: bool | None = None


class EventSeries(Object):
    count: int | None = None
    last_observed_time: MicroTime | None = None


class EventSource(Object):
    component: str | None = None
    host: str | None = None


class ObjectReference(Object):
    api_version: str | None = None
    field_path: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None
    uid: str | None = None


class Event(FullResource, api_version="v1", plural="events"):
    action: str | None = None
    count: int | None = None
    event_time: MicroTime | None = None
    first_timestamp: datetime | None = None
    involved_object: ObjectReference
    last_timestamp: datetime | None = None
    message: str | None = None
    reason: str | None = None
    related: ObjectReference | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None
    series: EventSeries | None = None
    source: EventSource | None = None
    type: str | None = None


class NamespaceSpec(Object):
    finalizers: tuple[str, ...] = ()


class NamespaceCondition(Object):
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class NamespaceStatus(Object):
    conditions: tuple[NamespaceCondition, ...] = ()
    phase: str | None = None


class Namespace(FullResource, api_version="v1", plural="namespaces", namespaced=False):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ConfigMapNodeConfigSource(Object):
    kubelet_config_key: str
    name: str
    namespace: str
    resource_version: str | None = None
    uid: str | None = None


class NodeConfigSource(Object):
    config_map: ConfigMapNodeConfigSource | None = None


class Taint(Object):
    effect: str
    key: str
    time_added: datetime | None = None
    value: str | None = None


class NodeSpec(Object):
    config_source: NodeConfigSource | None = None
    external_id: str | None = msgspec.field(default=None, name="externalID")
    pod_cidr: str | None = msgspec.field(default=None, name="podCIDR")
    pod_cidrs: tuple[str, ...] = msgspec.field(default=(), name="podCIDRs")
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool | None = None


class AttachedVolume(Object):
    device_path: str
    name: str


class ContainerImage(Object):
    names: tuple[str, ...] = ()
    size_bytes: int | None = None


class NodeAddress(Object):
    address: str
    type: str


class NodeCondition(Object):
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class NodeConfigStatus(Object):
    active: NodeConfigSource | None = None
    assigned: NodeConfigSource | None = None
    error: str | None = None
    last_known_good: NodeConfigSource | None = None


class DaemonEndpoint(Object):
    port: int = msgspec.field(name="Port")


class NodeDaemonEndpoints(Object):
    kubelet_endpoint: DaemonEndpoint | None = None


class NodeFeatures(Object):
    supplemental_groups_policy: bool | None = None


class NodeRuntimeHandlerFeatures(Object):
    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(Object):
    features: NodeRuntimeHandlerFeatures | None = None
    name: str | None = None


class NodeSwapStatus(Object):
    capacity: int | None = None


class NodeSystemInfo(Object):
    architecture: str
    boot_id: str = msgspec.field(name="bootID")
    container_runtime_version: str
    kernel_version: str
    kube_proxy_version: str
    kubelet_version: str
    machine_id: str = msgspec.field(name="machineID")
    operating_system: str
    os_image: str
    running_in_user_namespace: bool | None = None
    swap: NodeSwapStatus | None = None
    system_uuid: str = msgspec.field(name="systemUUID")


class NodeStatus(Object):
    addresses: tuple[NodeAddress, ...] = ()
    allocatable: Mapping[str, Quantity] = {}
    capacity: Mapping[str, Quantity] = {}
    conditions: tuple[NodeCondition, ...] = ()
    config: NodeConfigStatus | None = None
    daemon_endpoints: NodeDaemonEndpoints | None = None
    declared_features: tuple[str, ...] = ()
    features: NodeFeatures | None = None
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo | None = None
    phase: str | None = None
    runtime_handlers: tuple[NodeRuntimeHandler, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()


class Node(FullResource, api_version="v1", plural="nodes", namespaced=False):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class TypedLocalObjectReference(Object):
    api_group: str | None = None
    kind: str
    name: str


class TypedObjectReference(Object):
    api_group: str | None = None
    kind: str
    name: str
    namespace: str | None = None


class VolumeResourceRequirements(Object):
    limits: Mapping[str, Quantity] = {}
    requests: Mapping[str, Quantity] = {}


class PersistentVolumeClaimSpec(Object):
    access_modes: tuple[str, ...] = ()
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    resources: VolumeResourceRequirements | None = None
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str | None = None


class ModifyVolumeStatus(Object):
    status: str
    target_volume_attributes_class_name: str | None = None


class PersistentVolumeClaimCondition(Object):
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class PersistentVolumeClaimStatus(Object):
    access_modes: tuple[str, ...] = ()
    allocated_resource_statuses: Mapping[str, str] = {}
    allocated_resources: Mapping[str, Quantity] = {}
    capacity: Mapping[str, Quantity] = {}
    conditions: tuple[PersistentVolumeClaimCondition, ...] = ()
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None
    phase: str | None = None


class PersistentVolumeClaim(FullResource, api_version="v1", plural="persistentvolumeclaims"):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class NodeSelectorRequirement(Object):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Object):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Object):
    node_selector_terms: tuple[NodeSelectorTerm, ...]


class PreferredSchedulingTerm(Object):
    preference: NodeSelectorTerm
    weight: int


class NodeAffinity(Object):
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class PodAffinityTerm(Object):
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str


class WeightedPodAffinityTerm(Object):
    pod_affinity_term: PodAffinityTerm
    weight: int


class PodAffinity(Object):
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class PodAntiAffinity(Object):
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Affinity(Object):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class ContainerPort(Object):
    container_port: int
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    host_port: int | None = None
    name: str | None = None
    protocol: str | None = None


class ContainerResizePolicy(Object):
    resource_name: str
    restart_policy: str


class ContainerRestartRuleOnExitCodes(Object):
    operator: str
    values: tuple[int, ...] = ()


class ContainerRestartRule(Object):
    action: str
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class ConfigMapEnvSource(Object):
    name: str | None = None
    optional: bool | None = None


class SecretEnvSource(Object):
    name: str | None = None
    optional: bool | None = None


class EnvFromSource(Object):
    config_map_ref: ConfigMapEnvSource | None = None
    prefix: str | None = None
    secret_ref: SecretEnvSource | None = None


class ConfigMapKeySelector(Object):
    key: str
    name: str | None = None
    optional: bool | None = None


class FileKeySelector(Object):
    key: str
    optional: bool | None = None
    path: str
    volume_name: str


class ObjectFieldSelector(Object):
    api_version: str | None = None
    field_path: str


class ResourceFieldSelector(Object):
    container_name: str | None = None
    divisor: Quantity | None = None
    resource: str


class SecretKeySelector(Object):
    key: str
    name: str | None = None
    optional: bool | None = None


class EnvVarSource(Object):
    config_map_key_ref: ConfigMapKeySelector | None = None
    field_ref: ObjectFieldSelector | None = None
    file_key_ref: FileKeySelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    secret_key_ref: SecretKeySelector | None = None


class EnvVar(Object):
    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None


class ExecAction(Object):
    command: tuple[str, ...] = ()


class HTTPHeader(Object):
    name: str
    value: str


class HTTPGetAction(Object):
    host: str | None = None
    http_headers: tuple[HTTPHeader, ...] = ()
    path: str | None = None
    port: IntOrString
    scheme: str | None = None


class SleepAction(Object):
    seconds: int


class TCPSocketAction(Object):
    host: str | None = None
    port: IntOrString


class LifecycleHandler(Object):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = None


class Lifecycle(Object):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class GRPCAction(Object):
    port: int
    service: str | None = None


class Probe(Object):
    exec: ExecAction | None = None
    failure_threshold: int | None = None
    grpc: GRPCAction | None = None
    http_get: HTTPGetAction | None = None
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    tcp_socket: TCPSocketAction | None = None
    termination_grace_period_seconds: int | None = None
    timeout_seconds: int | None = None


class ResourceClaim(Object):
    name: str
    request: str | None = None


class ResourceRequirements(Object):
    claims: tuple[ResourceClaim, ...] = ()
    limits: Mapping[str, Quantity] = {}
    requests: Mapping[str, Quantity] = {}


class AppArmorProfile(Object):
    localhost_profile: str | None = None
    type: str


class Capabilities(Object):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SELinuxOptions(Object):
    level: str | None = None
    role: str | None = None
    type: str | None = None
    user: str | None = None


class SeccompProfile(Object):
    localhost_profile: str | None = None
    type: str


class WindowsSecurityContextOptions(Object):
    gmsa_credential_spec: str | None = None
    gmsa_credential_spec_name: str | None = None
    host_process: bool | None = None
    run_as_user_name: str | None = None


class SecurityContext(Object):
    allow_privilege_escalation: bool | None = None
    app_armor_profile: AppArmorProfile | None = None
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    proc_mount: str | None = None
    read_only_root_filesystem: bool | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    windows_options: WindowsSecurityContextOptions | None = None


class VolumeDevice(Object):
    device_path: str
    name: str


class VolumeMount(Object):
    mount_path: str
    mount_propagation: str | None = None
    name: str
    read_only: bool | None = None
    recursive_read_only: str | None = None
    sub_path: str | None = None
    sub_path_expr: str | None = None


class Container(Object):
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    image: str | None = None
    image_pull_policy: str | None = None
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    tty: bool | None = None
    volume_devices: tuple[VolumeDevice, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    working_dir: str | None = None


class EphemeralContainer(Object):
    args: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    image: str | None = None
    image_pull_policy: str | None = None
    lifecycle: Lifecycle | None = None
    liveness_probe: Probe | None = None
    name: str
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    startup_probe: Probe | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    target_container_name: str | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    tty: bool | None = None
    volume_devices: tuple[VolumeDevice, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    working_dir: str | None = None


class HostAlias(Object):
    hostnames: tuple[str, ...] = ()
    ip: str


class LocalObjectReference(Object):
    name: str | None = None


class PodDNSConfigOption(Object):
    name: str | None = None
    value: str | None = None


class PodDNSConfig(Object):
    nameservers: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()
    searches: tuple[str, ...] = ()


class PodOS(Object):
    name: str


class PodReadinessGate(Object):
    condition_type: str


class PodResourceClaim(Object):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGate(Object):
    name: str


class PodSchedulingGroup(Object):
    pod_group_name: str | None = None


class Sysctl(Object):
    name: str
    value: str


class PodSecurityContext(Object):
    app_armor_profile: AppArmorProfile | None = None
    fs_group: int | None = None
    fs_group_change_policy: str | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_change_policy: str | None = None
    se_linux_options: SELinuxOptions | None = None
    seccomp_profile: SeccompProfile | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str | None = None
    sysctls: tuple[Sysctl, ...] = ()
    windows_options: WindowsSecurityContextOptions | None = None


class Toleration(Object):
    effect: str | None = None
    key: str | None = None
    operator: str | None = None
    toleration_seconds: int | None = None
    value: str | None = None


class TopologySpreadConstraint(Object):
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    max_skew: int
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    topology_key: str
    when_unsatisfiable: str


class AWSElasticBlockStoreVolumeSource(Object):
    fs_type: str | None = None
    partition: int | None = None
    read_only: bool | None = None
    volume_id: str = msgspec.field(name="volumeID")


class AzureDiskVolumeSource(Object):
    caching_mode: str | None = None
    disk_name: str
    disk_uri: str = msgspec.field(name="diskURI")
    fs_type: str | None = None
    kind: str | None = None
    read_only: bool | None = None


class AzureFileVolumeSource(Object):
    read_only: bool | None = None
    secret_name: str
    share_name: str


class CSIVolumeSource(Object):
    driver: str
    fs_type: str | None = None
    node_publish_secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None
    volume_attributes: Mapping[str, str] = {}


class CephFSVolumeSource(Object):
    monitors: tuple[str, ...]
    path: str | None = None
    read_only: bool | None = None
    secret_file: str | None = None
    secret_ref: LocalObjectReference | None = None
    user: str | None = None


class CinderVolumeSource(Object):
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    volume_id: str = msgspec.field(name="volumeID")


class KeyToPath(Object):
    key: str
    mode: int | None = None
    path: str


class ConfigMapVolumeSource(Object):
    default_mode: int | None = None
    items: tuple[KeyToPath, ...] = ()
    name: str | None = None
    optional: bool | None = None


class DownwardAPIVolumeFile(Object):
    field_ref: ObjectFieldSelector | None = None
    mode: int | None = None
    path: str
    resource_field_ref: ResourceFieldSelector | None = None


class DownwardAPIVolumeSource(Object):
    default_mode: int | None = None
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class EmptyDirVolumeSource(Object):
    medium: str | None = None
    size_limit: Quantity | None = None


class PersistentVolumeClaimTemplate(Object):
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec


class EphemeralVolumeSource(Object):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class FCVolumeSource(Object):
    fs_type: str | None = None
    lun: int | None = None
    read_only: bool | None = None
    target_wwns: tuple[str, ...] = msgspec.field(default=(), name="targetWWNs")
    wwids: tuple[str, ...] = ()


class FlexVolumeSource(Object):
    driver: str
    fs_type: str | None = None
    options: Mapping[str, str] = {}
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None


class FlockerVolumeSource(Object):
    dataset_name: str | None = None
    dataset_uuid: str | None = msgspec.field(default=None, name="datasetUUID")


class GCEPersistentDiskVolumeSource(Object):
    fs_type: str | None = None
    partition: int | None = None
    pd_name: str
    read_only: bool | None = None


class GitRepoVolumeSource(Object):
    directory: str | None = None
    repository: str
    revision: str | None = None


class GlusterfsVolumeSource(Object):
    endpoints: str
    path: str
    read_only: bool | None = None


class HostPathVolumeSource(Object):
    path: str
    type: str | None = None


class ISCSIVolumeSource(Object):
    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    fs_type: str | None = None
    initiator_name: str | None = None
    iqn: str
    iscsi_interface: str | None = None
    lun: int
    portals: tuple[str, ...] = ()
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    target_portal: str


class ImageVolumeSource(Object):
    pull_policy: str | None = None
    reference: str | None = None


class NFSVolumeSource(Object):
    path: str
    read_only: bool | None = None
    server: str


class PersistentVolumeClaimVolumeSource(Object):
    claim_name: str
    read_only: bool | None = None


class PhotonPersistentDiskVolumeSource(Object):
    fs_type: str | None = None
    pd_id: str = msgspec.field(name="pdID")


class PortworxVolumeSource(Object):
    fs_type: str | None = None
    read_only: bool | None = None
    volume_id: str = msgspec.field(name="volumeID")


class ClusterTrustBundleProjection(Object):
    label_selector: LabelSelector | None = None
    name: str | None = None
    optional: bool | None = None
    path: str
    signer_name: str | None = None


class ConfigMapProjection(Object):
    items: tuple[KeyToPath, ...] = ()
    name: str | None = None
    optional: bool | None = None


class DownwardAPIProjection(Object):
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class PodCertificateProjection(Object):
    certificate_chain_path: str | None = None
    credential_bundle_path: str | None = None
    key_path: str | None = None
    key_type: str
    max_expiration_seconds: int | None = None
    signer_name: str
    user_annotations: Mapping[str, str] = {}


class SecretProjection(Object):
    items: tuple[KeyToPath, ...] = ()
    name: str | None = None
    optional: bool | None = None


class ServiceAccountTokenProjection(Object):
    audience: str | None = None
    expiration_seconds: int | None = None
    path: str


class VolumeProjection(Object):
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    config_map: ConfigMapProjection | None = None
    downward_api: DownwardAPIProjection | None = msgspec.field(default=None, name="downwardAPI")
    pod_certificate: PodCertificateProjection | None = None
    secret: SecretProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolumeSource(Object):
    default_mode: int | None = None
    sources: tuple[VolumeProjection, ...] = ()


class QuobyteVolumeSource(Object):
    group: str | None = None
    read_only: bool | None = None
    registry: str
    tenant: str | None = None
    user: str | None = None
    volume: str


class RBDVolumeSource(Object):
    fs_type: str | None = None
    image: str
    keyring: str | None = None
    monitors: tuple[str, ...]
    pool: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    user: str | None = None


class ScaleIOVolumeSource(Object):
    fs_type: str | None = None
    gateway: str
    protection_domain: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference
    ssl_enabled: bool | None = None
    storage_mode: str | None = None
    storage_pool: str | None = None
    system: str
    volume_name: str | None = None


class SecretVolumeSource(Object):
    default_mode: int | None = None
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None
    secret_name: str | None = None


class StorageOSVolumeSource(Object):
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None
    volume_name: str | None = None
    volume_namespace: str | None = None


class VsphereVirtualDiskVolumeSource(Object):
    fs_type: str | None = None
    storage_policy_id: str | None = msgspec.field(default=None, name="storagePolicyID")
    storage_policy_name: str | None = None
    volume_path: str


class Volume(Object):
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = msgspec.field(default=None, name="downwardAPI")
    empty_dir: EmptyDirVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    image: ImageVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    name: str
    nfs: NFSVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    scale_io: ScaleIOVolumeSource | None = msgspec.field(default=None, name="scaleIO")
    secret: SecretVolumeSource | None = None
    storageos: StorageOSVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class PodSpec(Object):
    active_deadline_seconds: int | None = None
    affinity: Affinity | None = None
    automount_service_account_token: bool | None = None
    containers: tuple[Container, ...]
    dns_config: PodDNSConfig | None = None
    dns_policy: str | None = None
    enable_service_links: bool | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")
    host_network: bool | None = None
    host_pid: bool | None = msgspec.field(default=None, name="hostPID")
    host_users: bool | None = None
    hostname: str | None = None
    hostname_override: str | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str | None = None
    node_selector: Mapping[str, str] = {}
    os: PodOS | None = None
    overhead: Mapping[str, Quantity] = {}
    preemption_policy: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    runtime_class_name: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    security_context: PodSecurityContext | None = None
    service_account: str | None = None
    service_account_name: str | None = None
    set_hostname_as_fqdn: bool | None = msgspec.field(default=None, name="setHostnameAsFQDN")
    share_process_namespace: bool | None = None
    subdomain: str | None = None
    termination_grace_period_seconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()


class ContainerStateRunning(Object):
    started_at: datetime | None = None


class ContainerStateTerminated(Object):
    container_id: str | None = msgspec.field(default=None, name="containerID")
    exit_code: int
    finished_at: datetime | None = None
    message: str | None = None
    reason: str | None = None
    signal: int | None = None
    started_at: datetime | None = None


class ContainerStateWaiting(Object):
    message: str | None = None
    reason: str | None = None


class ContainerState(Object):
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class LinuxContainerUser(Object):
    gid: int
    supplemental_groups: tuple[int, ...] = ()
    uid: int


class ContainerUser(Object):
    linux: LinuxContainerUser | None = None


class ResourceHealth(Object):
    health: str | None = None
    message: str | None = None
    resource_id: str = msgspec.field(name="resourceID")


class ResourceStatus(Object):
    name: str
    resources: tuple[ResourceHealth, ...] = ()


class ImageVolumeStatus(Object):
    image_ref: str


class VolumeStatus(Object):
    image: ImageVolumeStatus | None = None


class VolumeMountStatus(Object):
    mount_path: str
    name: str
    read_only: bool | None = None
    recursive_read_only: str | None = None
    volume_status: VolumeStatus | None = None


class ContainerStatus(Object):
    allocated_resources: Mapping[str, Quantity] = {}
    allocated_resources_status: tuple[ResourceStatus, ...] = ()
    container_id: str | None = msgspec.field(default=None, name="containerID")
    image: str
    image_id: str = msgspec.field(name="imageID")
    last_state: ContainerState | None = None
    name: str
    ready: bool
    resources: ResourceRequirements | None = None
    restart_count: int
    started: bool | None = None
    state: ContainerState | None = None
    stop_signal: str | None = None
    user: ContainerUser | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] = ()


class HostIP(Object):
    ip: str


class NodeAllocatableResourceClaimStatus(Object):
    containers: tuple[str, ...] = ()
    resource_claim_name: str
    resources: Mapping[str, Quantity]


class PodCondition(Object):
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    status: str
    type: str


class ContainerExtendedResourceRequest(Object):
    container_name: str
    request_name: str
    resource_name: str


class PodExtendedResourceClaimStatus(Object):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...]
    resource_claim_name: str


class PodIP(Object):
    ip: str


class PodResourceClaimStatus(Object):
    name: str
    resource_claim_name: str | None = None


class PodStatus(Object):
    allocated_resources: Mapping[str, Quantity] = {}
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    host_ips: tuple[HostIP, ...] = msgspec.field(default=(), name="hostIPs")
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    message: str | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    nominated_node_name: str | None = None
    observed_generation: int | None = None
    phase: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    qos_class: str | None = None
    reason: str | None = None
    resize: str | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    resources: ResourceRequirements | None = None
    start_time: datetime | None = None


class Pod(FullResource, api_version="v1", plural="pods"):
    spec: PodSpec
    status: PodStatus = PodStatus()


class PodTemplateSpec(Object):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class PodTemplate(FullResource, api_version="v1", plural="podtemplates"):
    template: PodTemplateSpec | None = None


class Secret(FullResource, api_version="v1", plural="secrets"):
    data: Mapping[str, bytes] = {}
    immutable: bool | None = None
    string_data: Mapping[str, str] = {}
    type: str | None = None

    def __repr__(self) -> str:
        """Return a form for people and logs, without secret values."""
        return f"{type(self).__name__}({self.key})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Do the same for tracebacks that show local variables."""
        return [("key", str(self.key))]


class ServicePort(Object):
    app_protocol: str | None = None
    name: str | None = None
    node_port: int | None = None
    port: int
    protocol: str | None = None
    target_port: IntOrString | None = None


class ClientIPConfig(Object):
    timeout_seconds: int | None = None


class SessionAffinityConfig(Object):
    client_ip: ClientIPConfig | None = msgspec.field(default=None, name="clientIP")


class ServiceSpec(Object):
    allocate_load_balancer_node_ports: bool | None = None
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    cluster_ips: tuple[str, ...] = msgspec.field(default=(), name="clusterIPs")
    external_ips: tuple[str, ...] = msgspec.field(default=(), name="externalIPs")
    external_name: str | None = None
    external_traffic_policy: str | None = None
    health_check_node_port: int | None = None
    internal_traffic_policy: str | None = None
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None
    load_balancer_class: str | None = None
    load_balancer_ip: str | None = msgspec.field(default=None, name="loadBalancerIP")
    load_balancer_source_ranges: tuple[str, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool | None = None
    selector: Mapping[str, str] = {}
    session_affinity: str | None = None
    session_affinity_config: SessionAffinityConfig | None = None
    traffic_distribution: str | None = None
    type: str | None = None


class PortStatus(Object):
    error: str | None = None
    port: int
    protocol: str


class LoadBalancerIngress(Object):
    hostname: str | None = None
    ip: str | None = None
    ip_mode: str | None = None
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(Object):
    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(Object):
    conditions: tuple[Condition, ...] = ()
    load_balancer: LoadBalancerStatus | None = None


class Service(FullResource, api_version="v1", plural="services"):
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class ServiceAccount(FullResource, api_version="v1", plural="serviceaccounts"):
    automount_service_account_token: bool | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    secrets: tuple[ObjectReference, ...] = ()


class EmbeddedPersistentVolumeClaim(Object):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec | None = None
    status: PersistentVolumeClaimStatus | None = None
