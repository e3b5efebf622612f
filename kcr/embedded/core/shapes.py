"""The shapes of the core kinds, all of them in one table.

Source: kubernetes/staging/src/k8s.io/api/core/v1/types.go, coordination/v1/types.go;
apimachinery/pkg/apis/meta/v1/types.go.
"""

from kcr.embedded.core.pod_shapes import PODS
from kcr.embedded.core.shape import read_shapes
from kcr.embedded.core.volume_shapes import VOLUMES

_METADATA = """
ObjectMeta
  name generateName namespace selfLink uid resourceVersion string
  generation int64
  creationTimestamp deletionTimestamp time
  deletionGracePeriodSeconds *int64
  labels annotations map[string]string
  ownerReferences []OwnerReference
  finalizers []string
  managedFields any

OwnerReference
  apiVersion kind name uid string
  controller blockOwnerDeletion *bool

LabelSelector
  matchLabels map[string]string
  matchExpressions []LabelSelectorRequirement

LabelSelectorRequirement
  key operator string
  values []string
"""

_STATUSES = """
PodStatus
  observedGeneration int64
  phase message reason nominatedNodeName hostIP podIP qosClass resize string
  conditions []PodCondition
  hostIPs podIPs []PodIP
  startTime time
  initContainerStatuses containerStatuses ephemeralContainerStatuses []ContainerStatus
  resourceClaimStatuses []any
  nodeAllocatableResourceClaimStatuses extendedResourceClaimStatus allocatedResources resources any

PodCondition
  observedGeneration int64
  type status reason message string
  lastProbeTime lastTransitionTime time!

PodIP
  ip string

ContainerStatus
  name image imageID *string
  state lastState ContainerState
  ready *bool
  restartCount *int32
  containerID string
  started *bool
  allocatedResources map[string]quantity
  resources ResourceRequirements
  volumeMounts []any
  user stopSignal any
  allocatedResourcesStatus []any

ContainerState
  waiting ContainerStateWaiting
  running ContainerStateRunning
  terminated ContainerStateTerminated

ContainerStateWaiting
  reason message string

ContainerStateRunning
  startedAt time!

ContainerStateTerminated
  exitCode *int32
  signal int32
  reason message containerID string
  startedAt finishedAt time!
"""

_OTHERS = """
Namespace
  kind apiVersion string
  metadata any
  spec NamespaceSpec
  status NamespaceStatus

NamespaceSpec
  finalizers []string

NamespaceStatus
  phase string
  conditions []NamespaceCondition

NamespaceCondition
  type status reason message string
  lastTransitionTime time!

Node
  kind apiVersion string
  metadata any
  spec NodeSpec
  status NodeStatus

NodeSpec
  podCIDR providerID externalID string
  podCIDRs []string
  unschedulable bool
  taints []Taint
  configSource any

Taint
  key value effect string
  timeAdded time

NodeStatus
  capacity allocatable map[string]quantity
  phase string
  conditions []NodeCondition
  addresses []NodeAddress
  daemonEndpoints nodeInfo config features declaredFeatures any
  images runtimeHandlers volumesAttached []any
  volumesInUse []string

NodeCondition
  type status reason message string
  lastHeartbeatTime lastTransitionTime time!

NodeAddress
  type address string

ConfigMap
  kind apiVersion string
  metadata any
  immutable *bool
  data binaryData map[string]string

Secret
  kind apiVersion type string
  metadata any
  immutable *bool
  data stringData map[string]string

ResourceQuota
  kind apiVersion string
  metadata any
  spec ResourceQuotaSpec
  status ResourceQuotaStatus

ResourceQuotaSpec
  hard map[string]quantity
  scopes []string
  scopeSelector ScopeSelector

ScopeSelector
  matchExpressions []ScopedResourceSelectorRequirement

ScopedResourceSelectorRequirement
  scopeName operator string
  values []string

ResourceQuotaStatus
  hard used map[string]quantity

Event
  kind apiVersion reason message type action string
  metadata any
  involvedObject related ObjectReference
  source EventSource
  firstTimestamp lastTimestamp time!
  count int32
  eventTime microtime!
  series EventSeries
  reportingComponent reportingInstance *string

ObjectReference
  kind namespace name uid apiVersion resourceVersion fieldPath string

EventSource
  component host string

EventSeries
  count int32
  lastObservedTime microtime!

Lease
  kind apiVersion string
  metadata any
  spec LeaseSpec

LeaseSpec
  holderIdentity strategy preferredHolder *string
  leaseDurationSeconds leaseTransitions *int32
  acquireTime renewTime microtime
"""

SHAPES = read_shapes("\n".join((_METADATA, PODS, VOLUMES, _STATUSES, _OTHERS)), {})
