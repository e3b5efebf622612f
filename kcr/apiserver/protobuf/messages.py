"""The messages that protobuf bodies are read with: a message per paragraph, a field per line.

A field has its number, its name in JSON and its type. `ignored` are those that a create does not keep anyway;
the members of a message named `-` stand in JSON beside those around it.
A member that is missing here is refused, not dropped: a Job that lost its volumes would run all the same.

Source: the generated.proto of k8s.io/api/{core,batch,policy,authorization,authentication}/v1 and of
k8s.io/apimachinery/pkg/{apis/meta/v1,runtime,api/resource}: field numbers.
"""

from collections.abc import Mapping

from kcr.apiserver.protobuf.pods import PODS
from kcr.apiserver.protobuf.volumes import VOLUMES

_TEXT = """
Unknown
  1 typeMeta TypeMeta
  2 raw raw
  3 contentEncoding string
  4 contentType string

TypeMeta
  1 apiVersion string
  2 kind string

Quantity
  1 string string

DeleteOptions
  1 gracePeriodSeconds int
  2 preconditions Preconditions
  3 orphanDependents bool
  4 propagationPolicy string
  5 dryRun []string
  6 ignoreStoreReadErrorWithClusterBreakingPotential bool

Preconditions
  1 uid string
  2 resourceVersion string

ObjectMeta
  1 name string
  2 generateName string
  3 namespace string
  4 selfLink string
  5 uid string
  6 resourceVersion string
  7 generation int
  8 creationTimestamp time
  9 deletionTimestamp time
  10 deletionGracePeriodSeconds int
  11 labels map[string]string
  12 annotations map[string]string
  13 ownerReferences []OwnerReference
  14 finalizers []string
  17 managedFields ignored

OwnerReference
  1 kind string
  3 name string
  4 uid string
  5 apiVersion string
  6 controller bool
  7 blockOwnerDeletion bool

Namespace
  1 metadata ObjectMeta
  2 spec NamespaceSpec
  3 status ignored

NamespaceSpec
  1 finalizers []string

ConfigMap
  1 metadata ObjectMeta
  2 data map[string]string
  3 binaryData map[string]bytes
  4 immutable bool

Secret
  1 metadata ObjectMeta
  2 data map[string]bytes
  3 type string
  4 stringData map[string]string
  5 immutable bool

ServiceAccount
  1 metadata ObjectMeta
  2 secrets []ObjectReference
  3 imagePullSecrets []LocalObjectReference
  4 automountServiceAccountToken bool

ResourceQuota
  1 metadata ObjectMeta
  2 spec ResourceQuotaSpec
  3 status ResourceQuotaStatus

ResourceQuotaSpec
  1 hard map[string]quantity
  2 scopes []string
  3 scopeSelector ScopeSelector

ResourceQuotaStatus
  1 hard map[string]quantity
  2 used map[string]quantity

ScopeSelector
  1 matchExpressions []ScopedResourceSelectorRequirement

ScopedResourceSelectorRequirement
  1 scopeName string
  2 operator string
  3 values []string

ObjectReference
  1 kind string
  2 namespace string
  3 name string
  4 uid string
  5 apiVersion string
  6 resourceVersion string
  7 fieldPath string

Job
  1 metadata ObjectMeta
  2 spec JobSpec
  3 status JobStatus

CronJob
  1 metadata ObjectMeta
  2 spec CronJobSpec
  3 status CronJobStatus

JobSpec
  1 parallelism int
  2 completions int
  3 activeDeadlineSeconds int
  4 selector LabelSelector
  5 manualSelector bool
  6 template PodTemplateSpec
  7 backoffLimit int
  8 ttlSecondsAfterFinished int
  9 completionMode string
  10 suspend bool
  11 podFailurePolicy PodFailurePolicy
  12 backoffLimitPerIndex int
  13 maxFailedIndexes int
  14 podReplacementPolicy string
  15 managedBy string
  16 successPolicy SuccessPolicy

PodFailurePolicy
  1 rules []PodFailurePolicyRule

PodFailurePolicyRule
  1 action string
  2 onExitCodes PodFailurePolicyOnExitCodesRequirement
  3 onPodConditions []PodFailurePolicyOnPodConditionsPattern

PodFailurePolicyOnExitCodesRequirement
  1 containerName string
  2 operator string
  3 values []int

PodFailurePolicyOnPodConditionsPattern
  1 type string
  2 status string

SuccessPolicy
  1 rules []SuccessPolicyRule

SuccessPolicyRule
  1 succeededIndexes string
  2 succeededCount int

CronJobSpec
  1 schedule string
  2 startingDeadlineSeconds int
  3 concurrencyPolicy string
  4 suspend bool
  5 jobTemplate JobTemplateSpec
  6 successfulJobsHistoryLimit int
  7 failedJobsHistoryLimit int
  8 timeZone string

JobTemplateSpec
  1 metadata ObjectMeta
  2 spec JobSpec

JobStatus
  1 conditions []JobCondition
  2 startTime time
  3 completionTime time
  4 active int
  5 succeeded int
  6 failed int
  7 completedIndexes string
  8 uncountedTerminatedPods UncountedTerminatedPods
  9 ready int
  10 failedIndexes string
  11 terminating int

JobCondition
  1 type string
  2 status string
  3 lastProbeTime time
  4 lastTransitionTime time
  5 reason string
  6 message string

UncountedTerminatedPods
  1 succeeded []string
  2 failed []string

CronJobStatus
  1 active []ObjectReference
  4 lastScheduleTime time
  5 lastSuccessfulTime time

LabelSelector
  1 matchLabels map[string]string
  2 matchExpressions []LabelSelectorRequirement

LabelSelectorRequirement
  1 key string
  2 operator string
  3 values []string

SelfSubjectAccessReview
  1 metadata ObjectMeta
  2 spec SelfSubjectAccessReviewSpec
  3 status ignored

SelfSubjectAccessReviewSpec
  1 resourceAttributes ResourceAttributes
  2 nonResourceAttributes NonResourceAttributes

ResourceAttributes
  1 namespace string
  2 verb string
  3 group string
  4 version string
  5 resource string
  6 subresource string
  7 name string

NonResourceAttributes
  1 path string
  2 verb string

SelfSubjectRulesReview
  1 metadata ObjectMeta
  2 spec SelfSubjectRulesReviewSpec
  3 status ignored

SelfSubjectRulesReviewSpec
  1 namespace string

SelfSubjectReview
  1 metadata ObjectMeta
  2 status ignored

Eviction
  1 metadata ObjectMeta
  2 deleteOptions DeleteOptions
"""

# What a body may be.
ROOTS = (
    "ConfigMap", "CronJob", "DeleteOptions", "Eviction", "Job", "Namespace", "ResourceQuota", "Secret",
    "SelfSubjectAccessReview", "SelfSubjectReview", "SelfSubjectRulesReview", "ServiceAccount",
)  # fmt: skip


def _read(text: str) -> dict[str, dict[int, tuple[str, str]]]:
    messages: dict[str, dict[int, tuple[str, str]]] = {}
    for paragraph in text.strip().split("\n\n"):
        name, *lines = paragraph.splitlines()
        fields = (line.split() for line in lines)
        messages[name] = {int(number): (member, kind) for number, member, kind in fields}
    return messages


# Per message, the fields by their numbers: the member's name and its type.
MESSAGES: Mapping[str, Mapping[int, tuple[str, str]]] = {**_read(_TEXT), **_read(PODS), **_read(VOLUMES)}
