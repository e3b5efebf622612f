"""Which zero values count as absent: facts that Kubernetes' published schema does not have.

Go leaves `""`, `0` and `false` out of JSON where a field holds them by value and is tagged `omitempty`; where it holds
a pointer, the zero value is kept. The published schema tells neither. Optional fields named here are of the first kind;
all others keep what they are given. Times held by value are written as null when they are not set: those are named
in `SHOWN`, and required ones are known to be.

Source: types.go in kubernetes/staging/src/k8s.io/api/{authorization,batch,core}/v1 and apimachinery/pkg/apis/meta/v1.
"""

from collections.abc import Mapping


def _fields(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for name, *fields in (line.split() for line in text.strip().splitlines()):
        found[name] = found.get(name, frozenset()).union(fields)
    return found


ABSENT: Mapping[str, frozenset[str]] = _fields("""
authorization.v1.NonResourceAttributes path verb
authorization.v1.ResourceAttributes namespace verb group version resource subresource name
authorization.v1.SelfSubjectRulesReviewSpec namespace
batch.v1.CronJobSpec concurrencyPolicy
batch.v1.JobCondition reason message
batch.v1.JobStatus active succeeded failed completedIndexes
batch.v1.PodFailurePolicyOnPodConditionsPattern status
core.v1.ConfigMapEnvSource name
core.v1.ConfigMapKeySelector name
core.v1.ConfigMapProjection name
core.v1.ConfigMapVolumeSource name
core.v1.Container image workingDir terminationMessagePath terminationMessagePolicy imagePullPolicy stdin stdinOnce tty
core.v1.ContainerPort name protocol hostIP hostPort
core.v1.ContainerStateTerminated signal reason message containerID
core.v1.ContainerStateWaiting reason message
core.v1.ContainerStatus containerID
core.v1.EmptyDirVolumeSource medium
core.v1.EnvFromSource prefix
core.v1.EnvVar value
core.v1.EphemeralContainer image workingDir terminationMessagePath terminationMessagePolicy imagePullPolicy
core.v1.EphemeralContainer targetContainerName stdin stdinOnce tty
core.v1.Event reason message type action count
core.v1.EventSeries count
core.v1.EventSource component host
core.v1.HTTPGetAction path host scheme
core.v1.LocalObjectReference name
core.v1.NFSVolumeSource readOnly
core.v1.NamespaceCondition reason message
core.v1.NamespaceStatus phase
core.v1.NodeCondition reason message
core.v1.NodeSpec podCIDR providerID externalID unschedulable
core.v1.NodeStatus phase
core.v1.ObjectFieldSelector apiVersion
core.v1.ObjectReference kind namespace name uid apiVersion resourceVersion fieldPath
core.v1.PersistentVolumeClaimVolumeSource readOnly
core.v1.PodCondition observedGeneration reason message
core.v1.PodDNSConfigOption name
core.v1.PodSpec restartPolicy dnsPolicy serviceAccountName serviceAccount nodeName hostname subdomain schedulerName
core.v1.PodSpec priorityClassName hostNetwork hostPID hostIPC
core.v1.PodStatus observedGeneration phase message reason nominatedNodeName hostIP podIP qosClass resize
core.v1.Probe initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold
core.v1.ResourceClaim request
core.v1.ResourceFieldSelector containerName
core.v1.Secret type
core.v1.SecretEnvSource name
core.v1.SecretKeySelector name
core.v1.SecretProjection name
core.v1.SecretVolumeSource secretName
core.v1.ServiceAccountTokenProjection audience
core.v1.TCPSocketAction host
core.v1.Taint value
core.v1.Toleration key operator value effect
core.v1.VolumeMount subPath subPathExpr readOnly
meta.v1.ObjectMeta name generateName namespace selfLink uid resourceVersion generation
""")

SHOWN: Mapping[str, frozenset[str]] = _fields("""
batch.v1.JobCondition lastProbeTime lastTransitionTime
core.v1.ContainerStateRunning startedAt
core.v1.ContainerStateTerminated startedAt finishedAt
core.v1.Event firstTimestamp lastTimestamp eventTime
core.v1.EventSeries lastObservedTime
core.v1.NamespaceCondition lastTransitionTime
core.v1.NodeCondition lastHeartbeatTime lastTransitionTime
core.v1.PodCondition lastProbeTime lastTransitionTime
""")
