"""The messages that protobuf bodies are read with: a message per paragraph, a field per line.

A field has its number, its name in JSON and its type. `ignored` are those that a create does not keep anyway.
A member that is missing here is refused, not dropped: a Job that lost its volumes would run all the same.

Source: the generated.proto of k8s.io/api/{core,batch,authorization,authentication}/v1 and of
k8s.io/apimachinery/pkg/{apis/meta/v1,runtime,api/resource}: field numbers.
"""

from collections.abc import Mapping

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

ObjectReference
  1 kind string
  2 namespace string
  3 name string
  4 uid string
  5 apiVersion string
  6 resourceVersion string
  7 fieldPath string

LocalObjectReference
  1 name string

Job
  1 metadata ObjectMeta
  2 spec JobSpec
  3 status ignored

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
  12 backoffLimitPerIndex int
  13 maxFailedIndexes int
  14 podReplacementPolicy string
  15 managedBy string

LabelSelector
  1 matchLabels map[string]string

PodTemplateSpec
  1 metadata ObjectMeta
  2 spec PodSpec

PodSpec
  2 containers []Container
  3 restartPolicy string
  4 terminationGracePeriodSeconds int
  5 activeDeadlineSeconds int
  6 dnsPolicy string
  7 nodeSelector map[string]string
  8 serviceAccountName string
  9 serviceAccount string
  10 nodeName string
  11 hostNetwork bool
  12 hostPID bool
  13 hostIPC bool
  15 imagePullSecrets []LocalObjectReference
  16 hostname string
  17 subdomain string
  19 schedulerName string
  20 initContainers []Container
  21 automountServiceAccountToken bool
  22 tolerations []Toleration
  24 priorityClassName string
  25 priority int
  27 shareProcessNamespace bool
  29 runtimeClassName string
  30 enableServiceLinks bool
  31 preemptionPolicy string
  35 setHostnameAsFQDN bool
  37 hostUsers bool
  41 hostnameOverride string

Toleration
  1 key string
  2 operator string
  3 value string
  4 effect string
  5 tolerationSeconds int

Container
  1 name string
  2 image string
  3 command []string
  4 args []string
  5 workingDir string
  6 ports []ContainerPort
  7 env []EnvVar
  8 resources ResourceRequirements
  13 terminationMessagePath string
  14 imagePullPolicy string
  16 stdin bool
  17 stdinOnce bool
  18 tty bool
  20 terminationMessagePolicy string
  24 restartPolicy string

ContainerPort
  1 name string
  2 hostPort int
  3 containerPort int
  4 protocol string
  5 hostIP string

EnvVar
  1 name string
  2 value string
  3 valueFrom EnvVarSource

EnvVarSource
  1 fieldRef ObjectFieldSelector

ObjectFieldSelector
  1 apiVersion string
  2 fieldPath string

ResourceRequirements
  1 limits map[string]quantity
  2 requests map[string]quantity

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
"""

# What a body may be.
ROOTS = (
    "ConfigMap", "DeleteOptions", "Job", "Namespace", "Secret", "SelfSubjectAccessReview", "SelfSubjectReview",
    "SelfSubjectRulesReview", "ServiceAccount",
)  # fmt: skip


def _read(text: str) -> dict[str, dict[int, tuple[str, str]]]:
    messages: dict[str, dict[int, tuple[str, str]]] = {}
    for paragraph in text.strip().split("\n\n"):
        name, *lines = paragraph.splitlines()
        fields = (line.split() for line in lines)
        messages[name] = {int(number): (member, kind) for number, member, kind in fields}
    return messages


# Per message, the fields by their numbers: the member's name and its type.
MESSAGES: Mapping[str, Mapping[int, tuple[str, str]]] = _read(_TEXT)
